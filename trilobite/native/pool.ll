; The thread pool. Text of LLVM; `pool.py` fills in what stands behind a dollar sign.
;
; The control block, in 8-byte words. What one side writes and another reads stands 128 bytes from the rest.
;    0       job: number * 65536 + parts; parts 65535 means "leave". Written last, so it publishes the others
;   16..19   the job's function, arguments, units, pieces of a part
;   20, 21   where the running table is told to stop (driver.ll); the most pieces that are taken at once
;   32       1 while a program runs on this block
;   34, 35   pieces of the job that are not done; 1 while the caller sleeps until none is left (i32)
;   48       threads, the caller's among them; 0: not started
;   49       nanoseconds to look for work before sleeping
;   50, 51   sleep(word): blocks while the word is 1; wake(word)
;   52..59   Python: PyEval_SaveThread, PyEval_RestoreThread, PyLong_FromLongLong, the types of arrays and tuples,
;            PyErr_CheckSignals, PyObject_CallNoArgs, Py_DecRef
;   60, 61   place(control): keeps the other threads off the core that the caller runs on; that core plus 1
;   64+16t   thread t: which pieces of its part nobody has taken (job number * 65536 + first * 256 + behind the
;            last), -, 1 while it sleeps (i32), -, its scratch memory, the system's number for it
;   72..75   the cores of the process, one bit each; all 0: threads run where the system puts them
;
; Part t of a job is for thread t, so that a thread finds in its cache what it wrote before. A core may be slower
; than another, for it shares its units with a neighbour's, or may not be there at all for a while; so parts are
; cut into pieces, and who is through with its own takes pieces of the others'. A thread that the system does not
; let run costs nothing but its help, unless it was in the middle of a piece. Who runs a piece changes no bit of
; the result.
;
; A thread that was not let run for a millisecond while it looked for work has found out that the machine is busy
; with others; for its next jobs it sleeps at once.

define internal ptr @line(ptr %control, i64 %t) {
  %offset = mul i64 %t, 16
  %word = add i64 %offset, 64
  %line = getelementptr i64, ptr %control, i64 %word
  ret ptr %line
}

; Takes pieces of a thread's part that nobody has. Others take a quarter of them, from the back; the thread itself
; takes two thirds first, which is what a core at half speed does while another does its own part and helps, then
; a quarter at a time, from the front, but never more than `limit`. Gives first * 256 + behind the last; 0 if none is
; left or the job is over.
define internal i64 @claim(ptr %line, i64 %job, i1 %own, i64 %limit) {
start:
  %before = load atomic i64, ptr %line acquire, align 8
  br label %look
look:
  %claims = phi i64 [ %before, %start ], [ %seen, %take ]
  %other = xor i64 %claims, %job
  %same = icmp ult i64 %other, 65536
  br i1 %same, label %count, label %none
count:
  %fronts = lshr i64 %claims, 8
  %front = and i64 %fronts, 255
  %back = and i64 %claims, 255
  %left = sub i64 %back, %front
  %over = icmp eq i64 %left, 0
  br i1 %over, label %none, label %take
take:
  %fresh = icmp eq i64 %front, 0
  %opening = and i1 %fresh, %own
  %twice = shl i64 %left, 1
  %most = udiv i64 %twice, 3
  %round = add i64 %left, 3
  %quarter = lshr i64 %round, 2
  %share = select i1 %opening, i64 %most, i64 %quarter
  %bounded = call i64 @llvm.umin.i64(i64 %share, i64 %limit)
  %some = call i64 @llvm.umax.i64(i64 %bounded, i64 1)
  %front1 = add i64 %front, %some
  %back1 = sub i64 %back, %some
  %forward = shl i64 %some, 8
  %from_front = add i64 %claims, %forward
  %from_back = sub i64 %claims, %some
  %next = select i1 %own, i64 %from_front, i64 %from_back
  %pair = cmpxchg ptr %line, i64 %claims, i64 %next acq_rel acquire
  %seen = extractvalue { i64, i1 } %pair, 0
  %taken = extractvalue { i64, i1 } %pair, 1
  br i1 %taken, label %mine, label %look
mine:
  %first = select i1 %own, i64 %front, i64 %back1
  %last = select i1 %own, i64 %front1, i64 %back
  %high = shl i64 %first, 8
  %range = or i64 %high, %last
  ret i64 %range
none:
  ret i64 0
}

; Runs pieces of part t, then of the others', as long as there are any; gives how many. The caller waits for
; pieces that somebody has taken, so the job's words stand still. When the table is told to stop, pieces are taken
; and left undone.
define internal i64 @work(ptr %control, i64 %job, i64 %t) {
start:
  %own_line = call ptr @line(ptr %control, i64 %t)
  %scratches = getelementptr i64, ptr %own_line, i64 4
  %functions = getelementptr i64, ptr %control, i64 16
  %argses = getelementptr i64, ptr %control, i64 17
  %unitses = getelementptr i64, ptr %control, i64 18
  %pieceses = getelementptr i64, ptr %control, i64 19
  %stopses = getelementptr i64, ptr %control, i64 20
  %limits = getelementptr i64, ptr %control, i64 21
  %parts = and i64 %job, 65535
  br label %part
part:
  %k = phi i64 [ 0, %start ], [ %k1, %next ]
  %total = phi i64 [ 0, %start ], [ %done, %next ]
  %some = icmp ult i64 %k, %parts
  br i1 %some, label %find, label %end
find:
  %sum = add i64 %t, %k
  %wraps = icmp uge i64 %sum, %parts
  %less = sub i64 %sum, %parts
  %p = select i1 %wraps, i64 %less, i64 %sum
  %own = icmp eq i64 %k, 0
  %line = call ptr @line(ptr %control, i64 %p)
  br label %more
more:
  %done = phi i64 [ %total, %find ], [ %done1, %ran ]
  %limit = load i64, ptr %limits
  %range = call i64 @claim(ptr %line, i64 %job, i1 %own, i64 %limit)
  %none = icmp eq i64 %range, 0
  br i1 %none, label %next, label %taken
taken:
  %first = lshr i64 %range, 8
  %last = and i64 %range, 255
  %stops = load ptr, ptr %stopses
  %told = load atomic i64, ptr %stops monotonic, align 8
  %stopped = icmp eq i64 %told, 1
  br i1 %stopped, label %ran, label %run
run:
  %function = load ptr, ptr %functions
  %args = load ptr, ptr %argses
  %units = load i64, ptr %unitses
  %pieces = load i64, ptr %pieceses
  %scratch = load ptr, ptr %scratches
  %low = mul i64 %units, %p
  %low_unit = udiv i64 %low, %parts
  %high = add i64 %low, %units
  %high_unit = udiv i64 %high, %parts
  %width = sub i64 %high_unit, %low_unit
  %first_wide = mul i64 %width, %first
  %first_unit = udiv i64 %first_wide, %pieces
  %last_wide = mul i64 %width, %last
  %last_unit = udiv i64 %last_wide, %pieces
  %begin = add i64 %low_unit, %first_unit
  %end_unit = add i64 %low_unit, %last_unit
  call void %function(ptr %args, i64 %begin, i64 %end_unit, ptr %scratch)
  br label %ran
ran:
  %count = sub i64 %last, %first
  %done1 = add i64 %done, %count
  br label %more
next:
  %k1 = add i64 %k, 1
  br label %part
end:
  ret i64 %total
}

; So many pieces less are to be done; says whether that was all.
define internal i1 @settle(ptr %control, i64 %done) {
  %lefts = getelementptr i64, ptr %control, i64 34
  %left = atomicrmw sub ptr %lefts, i64 %done seq_cst
  %all = icmp eq i64 %left, %done
  ret i1 %all
}

; Where a worker lives until it is told to leave. `first` is the job it does not have to do any more.
define internal void @worker(ptr %control, i64 %t, i64 %first) {
start:
  %line = call ptr @line(ptr %control, i64 %t)
  %sleeping = getelementptr i64, ptr %line, i64 2
  %awaited = getelementptr i64, ptr %control, i64 35
  %patiences = getelementptr i64, ptr %control, i64 49
  %sleeps = getelementptr i64, ptr %control, i64 50
  %wakes = getelementptr i64, ptr %control, i64 51
  br label %idle
idle:
  %last = phi i64 [ %first, %start ], [ %last, %up ], [ %job, %found ], [ %job, %work ], [ %job, %did ],
                  [ %job, %all ], [ %job, %call ]
  %debt = phi i64 [ 0, %start ], [ %owed, %up ], [ %rest_debt, %found ], [ %rest_debt, %work ],
                  [ %rest_debt, %did ], [ %rest_debt, %all ], [ %rest_debt, %call ]
  %patience = load atomic i64, ptr %patiences monotonic, align 8
  %free = icmp eq i64 %debt, 0
  %allowed = select i1 %free, i64 %patience, i64 0
  %since = call i64 @nanoseconds()
  br label %look
look:
  %before = phi i64 [ %since, %idle ], [ %now, %rest ]
  %job = load atomic i64, ptr %control acquire, align 8
  %same = icmp eq i64 %job, %last
  br i1 %same, label %wait, label %new
wait:
  %now = call i64 @nanoseconds()
  %gap = sub i64 %now, %before
  %absent = icmp ugt i64 %gap, 1000000
  %owed = select i1 %absent, i64 16, i64 %debt
  %waited = sub i64 %now, %since
  %over = icmp uge i64 %waited, %allowed
  %tired = or i1 %over, %absent
  br i1 %tired, label %lie, label %rest
rest:
  call void @pause()
  br label %look
lie:                                              ; say so first, then look again: the caller does the reverse
  store atomic i32 1, ptr %sleeping seq_cst, align 8
  %again = load atomic i64, ptr %control seq_cst, align 8
  %still = icmp eq i64 %again, %last
  br i1 %still, label %down, label %up
down:
  %sleep = load ptr, ptr %sleeps
  call void %sleep(ptr %sleeping)
  br label %up
up:
  store atomic i32 0, ptr %sleeping seq_cst, align 8
  br label %idle
new:
  %rest_debt = call i64 @llvm.usub.sat.i64(i64 %debt, i64 1)
  %parts = and i64 %job, 65535
  %leave = icmp eq i64 %parts, 65535
  br i1 %leave, label %end, label %found
found:
  %mine = icmp ult i64 %t, %parts
  br i1 %mine, label %work, label %idle
work:
  %done = call i64 @work(ptr %control, i64 %job, i64 %t)
  %late = icmp eq i64 %done, 0
  br i1 %late, label %idle, label %did
did:
  %whole = call i1 @settle(ptr %control, i64 %done)
  br i1 %whole, label %all, label %idle
all:
  %asleep = load atomic i32, ptr %awaited seq_cst, align 8
  %call_it = icmp ne i32 %asleep, 0
  br i1 %call_it, label %call, label %idle
call:
  store atomic i32 0, ptr %awaited seq_cst, align 8
  %wake = load ptr, ptr %wakes
  call void %wake(ptr %awaited)
  br label %idle
end:
  ret void
}

define internal void @rouse(ptr %control, ptr %line) {
  %sleeping = getelementptr i64, ptr %line, i64 2
  %state = load atomic i32, ptr %sleeping seq_cst, align 8
  %asleep = icmp ne i32 %state, 0
  br i1 %asleep, label %yes, label %no
yes:
  store atomic i32 0, ptr %sleeping seq_cst, align 8
  %wakes = getelementptr i64, ptr %control, i64 51
  %wake = load ptr, ptr %wakes
  call void %wake(ptr %sleeping)
  ret void
no:
  ret void
}

; Wakes the threads from 1 up to `through`.
define internal void @rouse_all(ptr %control, i64 %through) {
start:
  %several = icmp ugt i64 %through, 1
  br i1 %several, label %put, label %all
put:
  %places = getelementptr i64, ptr %control, i64 60
  %place = load ptr, ptr %places
  call void %place(ptr %control)
  br label %each
each:
  %t = phi i64 [ 1, %put ], [ %more, %one ]
  %some = icmp ult i64 %t, %through
  br i1 %some, label %one, label %all
one:
  %line = call ptr @line(ptr %control, i64 %t)
  call void @rouse(ptr %control, ptr %line)
  %more = add i64 %t, 1
  br label %each
all:
  ret void
}

; Publishes a job with this number of parts and wakes the threads up to `through`.
define internal i64 @publish(ptr %control, i64 %parts, i64 %through) {
  %before = load atomic i64, ptr %control monotonic, align 8
  %number = and i64 %before, -65536
  %next = add i64 %number, 65536
  %job = or i64 %next, %parts
  store atomic i64 %job, ptr %control seq_cst, align 8
  call void @rouse_all(ptr %control, i64 %through)
  ret i64 %job
}

; All units of a step: on this thread alone (manner 1), or in one part per thread, each in pieces of some
; microseconds or whole (manner 2). Long ones that may be told to stop have more pieces, taken one by one. `time` is
; how many nanoseconds it took last, and will be how many it took.
define internal void @step(ptr %control, ptr %function, ptr %args, i64 %units, i64 %manner, ptr %time) {
start:
  %own = getelementptr i64, ptr %control, i64 68
  %scratch = load ptr, ptr %own
  %threadses = getelementptr i64, ptr %control, i64 48
  %threads = load i64, ptr %threadses
  %fewer = call i64 @llvm.umin.i64(i64 %threads, i64 %units)
  %one = icmp ule i64 %fewer, 1
  %limits = getelementptr i64, ptr %control, i64 21
  %limit = load i64, ptr %limits
  %stoppable = icmp eq i64 %limit, 1
  %dividable = icmp eq i64 %manner, 0
  %long = and i1 %stoppable, %dividable
  %at_once = xor i1 %long, true
  %single = and i1 %one, %at_once
  %marked = icmp eq i64 %manner, 1
  %lonely = or i1 %single, %marked
  br i1 %lonely, label %alone, label %together
alone:
  call void %function(ptr %args, i64 0, i64 %units, ptr %scratch)
  ret void
together:
  %begin = call i64 @nanoseconds()
  %functions = getelementptr i64, ptr %control, i64 16
  %argses = getelementptr i64, ptr %control, i64 17
  %unitses = getelementptr i64, ptr %control, i64 18
  %pieceses = getelementptr i64, ptr %control, i64 19
  %lefts = getelementptr i64, ptr %control, i64 34
  %last = load i64, ptr %time
  %undivided = icmp eq i64 %manner, 2
  %most = select i1 %undivided, i64 1, i64 16
  %fitting = udiv i64 %last, 5000
  %usual = call i64 @llvm.umin.i64(i64 %fitting, i64 %most)
  %many = select i1 %long, i64 128, i64 %usual
  %share = udiv i64 %units, %fewer
  %fewest = call i64 @llvm.umin.i64(i64 %many, i64 %share)
  %pieces = call i64 @llvm.umax.i64(i64 %fewest, i64 1)
  %all = mul i64 %pieces, %fewer
  store ptr %function, ptr %functions
  store ptr %args, ptr %argses
  store i64 %units, ptr %unitses
  store i64 %pieces, ptr %pieceses
  store atomic i64 %all, ptr %lefts monotonic, align 8
  %before = load atomic i64, ptr %control monotonic, align 8
  %number = and i64 %before, -65536
  %next = add i64 %number, 65536
  %claims = or i64 %next, %pieces
  br label %offer
offer:
  %t = phi i64 [ 0, %together ], [ %t1, %offer ]
  %line = call ptr @line(ptr %control, i64 %t)
  store atomic i64 %claims, ptr %line release, align 8
  %t1 = add i64 %t, 1
  %unoffered = icmp ult i64 %t1, %fewer
  br i1 %unoffered, label %offer, label %go
go:
  %job = call i64 @publish(ptr %control, i64 %fewer, i64 %fewer)
  %done = call i64 @work(ptr %control, i64 %job, i64 0)
  %whole = call i1 @settle(ptr %control, i64 %done)
  br i1 %whole, label %end, label %join
join:
  call void @await(ptr %control)
  br label %end
end:
  %now = call i64 @nanoseconds()
  %took = sub i64 %now, %begin
  store i64 %took, ptr %time
  ret void
}

define internal void @await(ptr %control) {
start:
  %lefts = getelementptr i64, ptr %control, i64 34
  %awaited = getelementptr i64, ptr %control, i64 35
  %patiences = getelementptr i64, ptr %control, i64 49
  %short = load i64, ptr %patiences
  %patience = mul i64 %short, 16              ; what is left is being worked on: it is not far
  %since = call i64 @nanoseconds()
  br label %look
look:
  %state = load atomic i64, ptr %lefts acquire, align 8
  %ready = icmp eq i64 %state, 0
  br i1 %ready, label %end, label %wait
wait:
  %now = call i64 @nanoseconds()
  %waited = sub i64 %now, %since
  %tired = icmp uge i64 %waited, %patience
  br i1 %tired, label %lie, label %rest
rest:
  call void @pause()
  br label %look
lie:
  store atomic i32 1, ptr %awaited seq_cst, align 8
  %again = load atomic i64, ptr %lefts seq_cst, align 8
  %over = icmp eq i64 %again, 0
  br i1 %over, label %up, label %down
down:
  %sleeps = getelementptr i64, ptr %control, i64 50
  %sleep = load ptr, ptr %sleeps
  call void %sleep(ptr %awaited)
  br label %up
up:
  store atomic i32 0, ptr %awaited seq_cst, align 8
  br label %look
end:
  ret void
}

; Where the system offers no better.
define internal void @place_anywhere(ptr %control) {
  ret void
}

declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.usub.sat.i64(i64, i64)
