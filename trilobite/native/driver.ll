; The driver: runs a step table in one call. Text of LLVM; `runtime.py` fills in what stands behind a dollar sign.
;
; The header of a table, in 8-byte words:
;   0  1 while the table runs        1, 2  rows and their number         3, 4  patches and their number
;   5  1 if a row may run in parts   6..8  events: where, how many fit, how many there were
;   9  number of arrays expected     10    control block                 11    jumps back so far
;   12 0; 1 tells it to stop; 2: it overwrites what its caller holds, and can no longer be stopped; 3: it is over
;   13 the most pieces of a kernel that a thread takes at once             14    between so many jumps, a look at signals
; A row is 8 words, the first of which says what it is (the cases of the switch below). A patch is 3 words: the
; address of a word, the number of an array and an offset; the word becomes the array's address plus the offset.
; An event is 3 words: the row, and the nanoseconds at which it began and ended.
;
; What comes back: 0 it is done; -1 another program runs on the control block; -2 this table runs already; -3 the
; pool is not started; -4 not a tuple of the right size; -5 Python has raised an exception; -6 it was told to stop;
; -16-k array k is not a contiguous NumPy array; 1 it is done, but took so long that one might want to interrupt it.

; `state` is what PyEval_SaveThread gave, or null if the interpreter's lock is held.
define internal i64 @run(ptr %header, ptr %arrays, ptr %control, ptr %state) {
start:
  %parallels = getelementptr i64, ptr %header, i64 5
  %parallel = load i64, ptr %parallels
  %threadses = getelementptr i64, ptr %control, i64 48
  %threads = load i64, ptr %threadses
  %missing = icmp ult i64 %threads, %parallel
  br i1 %missing, label %stale, label %table
stale:
  ret i64 -3
table:
  %got_table = call i64 @seize(ptr %header)
  %table_free = icmp eq i64 %got_table, 1
  br i1 %table_free, label %block, label %in_use
in_use:
  ret i64 -2
block:
  %busy = getelementptr i64, ptr %control, i64 32
  %got_block = call i64 @seize(ptr %busy)
  %block_free = icmp eq i64 %got_block, 1
  br i1 %block_free, label %ready, label %taken
taken:
  call void @release(ptr %header)
  ret i64 -1
ready:                                            ; waking takes longer than most rows: begin with it
  %stops = getelementptr i64, ptr %header, i64 12
  %stop_at = getelementptr i64, ptr %control, i64 20
  store ptr %stops, ptr %stop_at
  %renewed = cmpxchg ptr %stops, i64 3, i64 0 monotonic monotonic
  %limits = getelementptr i64, ptr %header, i64 13
  %limit = load i64, ptr %limits
  %limit_at = getelementptr i64, ptr %control, i64 21
  store i64 %limit, ptr %limit_at
  %helpers = mul i64 %threads, %parallel
  call void @rouse_all(ptr %control, i64 %helpers)
  br label %bind
bind:
  %bound = call i64 @bind(ptr %header, ptr %arrays, ptr %control)
  %well = icmp eq i64 %bound, 0
  br i1 %well, label %go, label %close
go:
  %walked = call i64 @walk(ptr %header, ptr %control, ptr %state)
  br label %close
close:
  %code = phi i64 [ %bound, %bind ], [ %walked, %go ]
  store atomic i64 3, ptr %stops release, align 8
  call void @release(ptr %busy)
  call void @release(ptr %header)
  ret i64 %code
}

; Writes the addresses of the caller's arrays into the argument words.
define internal i64 @bind(ptr %header, ptr %arrays, ptr %control) {
start:
  %array_types = getelementptr i64, ptr %control, i64 55
  %array_type = load ptr, ptr %array_types
  %tuple_types = getelementptr i64, ptr %control, i64 56
  %tuple_type = load ptr, ptr %tuple_types
  %expecteds = getelementptr i64, ptr %header, i64 9
  %expected = load i64, ptr %expecteds
  %types = getelementptr i8, ptr %arrays, i64 $type
  %type = load ptr, ptr %types
  %is_tuple = icmp eq ptr %type, %tuple_type
  br i1 %is_tuple, label %measure, label %wrong
measure:
  %sizes = getelementptr i8, ptr %arrays, i64 $size
  %size = load i64, ptr %sizes
  %fits = icmp eq i64 %size, %expected
  br i1 %fits, label %arrays_first, label %wrong
wrong:
  ret i64 -4
arrays_first:
  %items = getelementptr i8, ptr %arrays, i64 $items
  br label %arrays_each
arrays_each:
  %k = phi i64 [ 0, %arrays_first ], [ %k1, %arrays_next ]
  %unseen = icmp ult i64 %k, %size
  br i1 %unseen, label %array, label %patches_first
array:
  %item = getelementptr ptr, ptr %items, i64 %k
  %object = load ptr, ptr %item
  %object_types = getelementptr i8, ptr %object, i64 $type
  %object_type = load ptr, ptr %object_types
  %is_array = icmp eq ptr %object_type, %array_type
  br i1 %is_array, label %flags, label %bad
flags:
  %flagses = getelementptr i8, ptr %object, i64 $flags
  %flag_word = load i32, ptr %flagses
  %row_major = and i32 %flag_word, 1
  %is_row_major = icmp eq i32 %row_major, 1
  br i1 %is_row_major, label %arrays_next, label %bad
bad:
  %which = sub i64 -16, %k
  ret i64 %which
arrays_next:
  %k1 = add i64 %k, 1
  br label %arrays_each
patches_first:
  %patcheses = getelementptr i64, ptr %header, i64 3
  %patches = load ptr, ptr %patcheses
  %counts = getelementptr i64, ptr %header, i64 4
  %count = load i64, ptr %counts
  br label %each
each:
  %i = phi i64 [ 0, %patches_first ], [ %i1, %patch ]
  %some = icmp ult i64 %i, %count
  br i1 %some, label %patch, label %end
patch:
  %at = mul i64 %i, 3
  %where = getelementptr i64, ptr %patches, i64 %at
  %numbers = getelementptr i64, ptr %where, i64 1
  %offsets = getelementptr i64, ptr %where, i64 2
  %word = load ptr, ptr %where
  %number = load i64, ptr %numbers
  %offset = load i64, ptr %offsets
  %slot = getelementptr ptr, ptr %items, i64 %number
  %array_object = load ptr, ptr %slot
  %datas = getelementptr i8, ptr %array_object, i64 $data
  %data = load i64, ptr %datas
  %address = add i64 %data, %offset
  store i64 %address, ptr %word
  %i1 = add i64 %i, 1
  br label %each
end:
  ret i64 0
}

define internal i64 @walk(ptr %header, ptr %control, ptr %state) {
start:
  %rowses = getelementptr i64, ptr %header, i64 1
  %rows = load ptr, ptr %rowses
  %counts = getelementptr i64, ptr %header, i64 2
  %count = load i64, ptr %counts
  %stops = getelementptr i64, ptr %header, i64 12
  br label %next
next:
  %r = phi i64 [ 0, %start ], [ %r1, %compute ], [ %target, %back ], [ %target, %breathe ], [ %branch, %test ],
               [ %entry, %repeat ], [ %r1, %swap_all ], [ %r1, %set_all ], [ %r1, %undo ], [ %r1, %host ],
               [ %case, %choose ]
  %told = load atomic i64, ptr %stops monotonic, align 8
  %stopped = icmp eq i64 %told, 1
  br i1 %stopped, label %stop, label %on
stop:
  ret i64 -6
on:
  %over = icmp uge i64 %r, %count
  br i1 %over, label %end, label %row
end:
  ret i64 0
row:
  %r1 = add i64 %r, 1
  %at = mul i64 %r, 8
  %w0 = getelementptr i64, ptr %rows, i64 %at
  %w1 = getelementptr i64, ptr %w0, i64 1
  %w2 = getelementptr i64, ptr %w0, i64 2
  %w3 = getelementptr i64, ptr %w0, i64 3
  %w4 = getelementptr i64, ptr %w0, i64 4
  %w5 = getelementptr i64, ptr %w0, i64 5
  %op = load i64, ptr %w0
  %a = load i64, ptr %w1
  %p = load ptr, ptr %w1
  %b = load i64, ptr %w2
  %q = load ptr, ptr %w2
  %c = load i64, ptr %w3
  %d = load i64, ptr %w4
  switch i64 %op, label %kernel [ i64 1, label %back
                                  i64 2, label %test
                                  i64 3, label %repeat
                                  i64 4, label %again
                                  i64 5, label %swap
                                  i64 6, label %set
                                  i64 7, label %host
                                  i64 8, label %choose ]

kernel:                                           ; function, arguments, units, manner, time, does it overwrite?
  %w6 = getelementptr i64, ptr %w0, i64 6
  %overwrites = load i64, ptr %w6
  %harmless = icmp eq i64 %overwrites, 0
  br i1 %harmless, label %compute, label %commit
commit:
  %mark = cmpxchg ptr %stops, i64 0, i64 2 acq_rel acquire
  %marked = extractvalue { i64, i1 } %mark, 0
  %late = icmp eq i64 %marked, 1
  br i1 %late, label %stop, label %compute
compute:
  call void @timed(ptr %header, i64 %r, ptr %control, ptr %p, ptr %q, i64 %c, i64 %d, ptr %w5)
  br label %next

test:                                             ; word with the address of a flag, its bytes, target if it is 0
  %flag_at = load ptr, ptr %p
  %flag = call i64 @flag(ptr %flag_at, i64 %b)
  %zero = icmp eq i64 %flag, 0
  %branch = select i1 %zero, i64 %c, i64 %r1
  br label %next

choose:                                           ; word with the address of an int32, targets, their number
  %index_at = load ptr, ptr %p
  %index32 = load i32, ptr %index_at
  %index = sext i32 %index32 to i64
  %last = sub i64 %c, 1
  %below = call i64 @llvm.smin.i64(i64 %index, i64 %last)
  %named = call i64 @llvm.smax.i64(i64 %below, i64 0)
  %case_at = getelementptr i64, ptr %q, i64 %named
  %case = load i64, ptr %case_at
  br label %next

repeat:                                           ; how often, the row behind the loop; word 3 counts what is left
  store i64 %a, ptr %w3
  %never = icmp sle i64 %a, 0
  %entry = select i1 %never, i64 %b, i64 %r1
  br label %next

again:                                            ; the row of the repeat, bumps (word, stride), their number
  %loop_at = mul i64 %a, 8
  %loop = getelementptr i64, ptr %rows, i64 %loop_at
  %totals = getelementptr i64, ptr %loop, i64 1
  %lefts = getelementptr i64, ptr %loop, i64 3
  %total = load i64, ptr %totals
  %left = load i64, ptr %lefts
  %less = sub i64 %left, 1
  store i64 %less, ptr %lefts
  %more = icmp sgt i64 %less, 0
  br i1 %more, label %bump, label %undo
bump:
  call void @add_all(ptr %q, i64 %c, i64 1)
  br label %back
undo:                                             ; the words are as before, for the next run
  %times = sub i64 1, %total
  call void @add_all(ptr %q, i64 %c, i64 %times)
  br label %next

back:                                             ; target; or, behind a loop's end, the row of its repeat
  %body = add i64 %a, 1
  %is_jump = icmp eq i64 %op, 1
  %target = select i1 %is_jump, i64 %a, i64 %body
  %jumpses = getelementptr i64, ptr %header, i64 11
  %jumps = load i64, ptr %jumpses
  %jumps1 = add i64 %jumps, 1
  store i64 %jumps1, ptr %jumpses
  %betweens = getelementptr i64, ptr %header, i64 14
  %between = load i64, ptr %betweens
  %low = urem i64 %jumps1, %between
  %long = icmp eq i64 %low, 0
  br i1 %long, label %breathe, label %next
breathe:                                          ; lets the interpreter see signals: an endless loop can be ended
  %calm = call i1 @in_python(ptr %control, ptr %state, ptr null)
  br i1 %calm, label %next, label %raised

swap:                                             ; pairs of words' addresses, their number
  br label %swap_each
swap_each:
  %s = phi i64 [ 0, %swap ], [ %s1, %swap_one ]
  %unswapped = icmp ult i64 %s, %b
  br i1 %unswapped, label %swap_one, label %swap_all
swap_one:
  %s2 = mul i64 %s, 2
  %left_at = getelementptr ptr, ptr %p, i64 %s2
  %right_at = getelementptr ptr, ptr %left_at, i64 1
  %left_word = load ptr, ptr %left_at
  %right_word = load ptr, ptr %right_at
  %left_value = load i64, ptr %left_word
  %right_value = load i64, ptr %right_word
  store i64 %right_value, ptr %left_word
  store i64 %left_value, ptr %right_word
  %s1 = add i64 %s, 1
  br label %swap_each
swap_all:
  br label %next

set:                                              ; pairs (word's address, address of the word to copy), number
  br label %set_each
set_each:
  %e = phi i64 [ 0, %set ], [ %e1, %set_one ]
  %unset = icmp ult i64 %e, %b
  br i1 %unset, label %set_one, label %set_all
set_one:
  %e2 = mul i64 %e, 2
  %to_at = getelementptr ptr, ptr %p, i64 %e2
  %from_at = getelementptr ptr, ptr %to_at, i64 1
  %to = load ptr, ptr %to_at
  %from = load ptr, ptr %from_at
  %value = load i64, ptr %from
  store i64 %value, ptr %to
  %e1 = add i64 %e, 1
  br label %set_each
set_all:
  br label %next

host:                                             ; a Python object to call
  %fine = call i1 @in_python(ptr %control, ptr %state, ptr %p)
  br i1 %fine, label %next, label %raised

raised:
  ret i64 -5
}

; Calls a Python object, or looks for signals if it is null, with the interpreter's lock. False: an exception.
define internal i1 @in_python(ptr %control, ptr %state, ptr %object) {
start:
  %saves = getelementptr i64, ptr %control, i64 52
  %restores = getelementptr i64, ptr %control, i64 53
  %signalses = getelementptr i64, ptr %control, i64 57
  %calls = getelementptr i64, ptr %control, i64 58
  %dropses = getelementptr i64, ptr %control, i64 59
  %held = icmp eq ptr %state, null
  br i1 %held, label %inside, label %enter
enter:
  %restore = load ptr, ptr %restores
  call void %restore(ptr %state)
  br label %inside
inside:
  %no_object = icmp eq ptr %object, null
  br i1 %no_object, label %signals, label %call
signals:
  %look = load ptr, ptr %signalses
  %code = call i32 %look()
  %quiet = icmp eq i32 %code, 0
  br label %leave
call:
  %function = load ptr, ptr %calls
  %result = call ptr %function(ptr %object)
  %returned = icmp ne ptr %result, null
  br i1 %returned, label %drop, label %leave
drop:
  %dropper = load ptr, ptr %dropses
  call void %dropper(ptr %result)
  br label %leave
leave:
  %well = phi i1 [ %quiet, %signals ], [ false, %call ], [ true, %drop ]
  br i1 %held, label %end, label %free
free:
  %save = load ptr, ptr %saves
  %same = call ptr %save()
  br label %end
end:
  ret i1 %well
}

define internal i64 @flag(ptr %address, i64 %bytes) {
  switch i64 %bytes, label %one [ i64 4, label %four
                                  i64 8, label %eight ]
one:
  %byte = load i8, ptr %address
  %wide1 = zext i8 %byte to i64
  ret i64 %wide1
four:
  %word = load i32, ptr %address
  %wide4 = zext i32 %word to i64
  ret i64 %wide4
eight:
  %wide8 = load i64, ptr %address
  ret i64 %wide8
}

; word += stride * times, for each of the bumps
define internal void @add_all(ptr %bumps, i64 %count, i64 %times) {
start:
  br label %each
each:
  %i = phi i64 [ 0, %start ], [ %i1, %one ]
  %some = icmp ult i64 %i, %count
  br i1 %some, label %one, label %end
one:
  %at = mul i64 %i, 2
  %words = getelementptr i64, ptr %bumps, i64 %at
  %strides = getelementptr i64, ptr %words, i64 1
  %word = load ptr, ptr %words
  %stride = load i64, ptr %strides
  %delta = mul i64 %stride, %times
  %old = load i64, ptr %word
  %new = add i64 %old, %delta
  store i64 %new, ptr %word
  %i1 = add i64 %i, 1
  br label %each
end:
  ret void
}

define internal void @timed(ptr %header, i64 %r, ptr %control, ptr %fn, ptr %args, i64 %units, i64 %manner,
                            ptr %time) {
start:
  %eventses = getelementptr i64, ptr %header, i64 6
  %events = load ptr, ptr %eventses
  %untimed = icmp eq ptr %events, null
  br i1 %untimed, label %plain, label %watch
plain:
  call void @step(ptr %control, ptr %fn, ptr %args, i64 %units, i64 %manner, ptr %time)
  ret void
watch:
  %begin = call i64 @nanoseconds()
  call void @step(ptr %control, ptr %fn, ptr %args, i64 %units, i64 %manner, ptr %time)
  %end = call i64 @nanoseconds()
  %rooms = getelementptr i64, ptr %header, i64 7
  %counts = getelementptr i64, ptr %header, i64 8
  %room = load i64, ptr %rooms
  %count = load i64, ptr %counts
  %count1 = add i64 %count, 1
  store i64 %count1, ptr %counts
  %fits = icmp ult i64 %count, %room
  br i1 %fits, label %note, label %full
note:
  %at = mul i64 %count, 3
  %e0 = getelementptr i64, ptr %events, i64 %at
  %e1 = getelementptr i64, ptr %e0, i64 1
  %e2 = getelementptr i64, ptr %e0, i64 2
  store i64 %r, ptr %e0
  store i64 %begin, ptr %e1
  store i64 %end, ptr %e2
  ret void
full:
  ret void
}

; What Python calls: methods of one argument whose `self` is the header, as a NumPy array.
define internal ptr @call(ptr %self, ptr %arrays) {
  %header = call ptr @header(ptr %self)
  %controls = getelementptr i64, ptr %header, i64 10
  %control = load ptr, ptr %controls
  %result = call ptr @call_on(ptr %self, ptr %arrays, ptr %control)
  ret ptr %result
}

define internal ptr @call_brief(ptr %self, ptr %arrays) {
  %header = call ptr @header(ptr %self)
  %controls = getelementptr i64, ptr %header, i64 10
  %control = load ptr, ptr %controls
  %code = call i64 @run(ptr %header, ptr %arrays, ptr %control, ptr null)
  %result = call ptr @number(ptr %control, i64 %code)
  ret ptr %result
}

define internal ptr @call_on(ptr %self, ptr %arrays, ptr %control) {
  %header = call ptr @header(ptr %self)
  %saves = getelementptr i64, ptr %control, i64 52
  %restores = getelementptr i64, ptr %control, i64 53
  %save = load ptr, ptr %saves
  %restore = load ptr, ptr %restores
  %state = call ptr %save()
  %begin = call i64 @nanoseconds()
  %code = call i64 @run(ptr %header, ptr %arrays, ptr %control, ptr %state)
  %end = call i64 @nanoseconds()
  call void %restore(ptr %state)
  %took = sub i64 %end, %begin
  %long = icmp ugt i64 %took, 50000000
  %done = icmp eq i64 %code, 0
  %long_and_done = and i1 %long, %done
  %told = select i1 %long_and_done, i64 1, i64 %code
  %result = call ptr @number(ptr %control, i64 %told)
  ret ptr %result
}

define internal ptr @header(ptr %self) {
  %headers = getelementptr i8, ptr %self, i64 $data
  %header = load ptr, ptr %headers
  ret ptr %header
}

; A Python integer; null, as Python wants it, after an exception.
define internal ptr @number(ptr %control, i64 %code) {
  %raised = icmp eq i64 %code, -5
  br i1 %raised, label %no, label %yes
yes:
  %makes = getelementptr i64, ptr %control, i64 54
  %make = load ptr, ptr %makes
  %number = call ptr %make(i64 %code)
  ret ptr %number
no:
  ret ptr null
}
