; The thread pool. Text of LLVM; `pool.py` fills in what stands behind a dollar sign.
;
; The control block, in 8-byte words. What one side writes and another reads stands 128 bytes from the rest.
;    0       job: number * 65536 + parts; parts 65535 means "leave". Written last, so it publishes the others
;   16..18   the job's function, arguments, units
;   32       1 while a program runs on this block
;   48       threads, the caller's among them; 0: not started
;   49       nanoseconds to look for work before sleeping
;   50, 51   sleep(word): blocks while the word is 1; wake(word)
;   52..59   Python: PyEval_SaveThread, PyEval_RestoreThread, PyLong_FromLongLong, the types of arrays and tuples,
;            PyErr_CheckSignals, PyObject_CallNoArgs, Py_DecRef
;   60, 61   place(control): keeps the other threads off the core that the caller runs on; that core plus 1
;   64+16t   thread t: the last job claimed for its part, the last one done, 1 while it sleeps (i32),
;            1 while the caller sleeps until it is done (i32), its scratch memory, the system's number for it
;   72..75   the cores of the process, one bit each; all 0: threads run where the system puts them
;
; Part t of a job is for thread t, so that a thread finds in its cache what it wrote before. A part that nobody
; has claimed when the caller is through with its own is the caller's: a thread that the system does not let run
; costs nothing but its help. Who runs a part changes no bit of the result.
;
; A thread that was not let run for a millisecond while it looked for work has found out that the machine is busy
; with others; for its next jobs it sleeps at once.

$pause

define internal void @part(ptr %function, ptr %args, i64 %units, i64 %parts, i64 %t, ptr %scratch) {
  %low = mul i64 %units, %t
  %begin = udiv i64 %low, %parts
  %high = add i64 %low, %units
  %end = udiv i64 %high, %parts
  call void %function(ptr %args, i64 %begin, i64 %end, ptr %scratch)
  ret void
}

define internal ptr @line(ptr %control, i64 %t) {
  %offset = mul i64 %t, 16
  %word = add i64 %offset, 64
  %line = getelementptr i64, ptr %control, i64 %word
  ret ptr %line
}

; Where a worker lives until it is told to leave. `first` is the job it does not have to do any more.
define internal void @worker(ptr %control, i64 %t, i64 %first) {
start:
  %line = call ptr @line(ptr %control, i64 %t)
  %done = getelementptr i64, ptr %line, i64 1
  %sleeping = getelementptr i64, ptr %line, i64 2
  %awaited = getelementptr i64, ptr %line, i64 3
  %scratches = getelementptr i64, ptr %line, i64 4
  %functions = getelementptr i64, ptr %control, i64 16
  %argses = getelementptr i64, ptr %control, i64 17
  %unitses = getelementptr i64, ptr %control, i64 18
  %patiences = getelementptr i64, ptr %control, i64 49
  %sleeps = getelementptr i64, ptr %control, i64 50
  %wakes = getelementptr i64, ptr %control, i64 51
  br label %idle
idle:
  %last = phi i64 [ %first, %start ], [ %last, %up ], [ %job, %found ], [ %job, %claim ], [ %job, %take ],
                  [ %job, %work ], [ %job, %call ]
  %debt = phi i64 [ 0, %start ], [ %owed, %up ], [ %rest_debt, %found ], [ %rest_debt, %claim ],
                  [ %rest_debt, %take ], [ %rest_debt, %work ], [ %rest_debt, %call ]
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
  br i1 %mine, label %claim, label %idle
claim:                                            ; later numbers are larger: this one may be long over
  %owner = load atomic i64, ptr %line monotonic, align 8
  %late = icmp uge i64 %owner, %job
  br i1 %late, label %idle, label %take
take:
  %pair = cmpxchg ptr %line, i64 %owner, i64 %job acq_rel monotonic
  %taken = extractvalue { i64, i1 } %pair, 1
  br i1 %taken, label %work, label %idle
work:                                             ; the caller waits for it now, so the job's words stand still
  %function = load ptr, ptr %functions
  %args = load ptr, ptr %argses
  %units = load i64, ptr %unitses
  %scratch = load ptr, ptr %scratches
  call void @part(ptr %function, ptr %args, i64 %units, i64 %parts, i64 %t, ptr %scratch)
  store atomic i64 %job, ptr %done seq_cst, align 8
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

; All units of a step: on this thread alone, or in one part per thread.
define internal void @step(ptr %control, ptr %function, ptr %args, i64 %units, i64 %serial) {
start:
  %own = getelementptr i64, ptr %control, i64 68
  %scratch = load ptr, ptr %own
  %threadses = getelementptr i64, ptr %control, i64 48
  %threads = load i64, ptr %threadses
  %fewer = call i64 @llvm.umin.i64(i64 %threads, i64 %units)
  %one = icmp ule i64 %fewer, 1
  %marked = icmp ne i64 %serial, 0
  %lonely = or i1 %one, %marked
  br i1 %lonely, label %alone, label %together
alone:
  call void %function(ptr %args, i64 0, i64 %units, ptr %scratch)
  ret void
together:
  %functions = getelementptr i64, ptr %control, i64 16
  %argses = getelementptr i64, ptr %control, i64 17
  %unitses = getelementptr i64, ptr %control, i64 18
  store ptr %function, ptr %functions
  store ptr %args, ptr %argses
  store i64 %units, ptr %unitses
  %job = call i64 @publish(ptr %control, i64 %fewer, i64 %fewer)
  call void @part(ptr %function, ptr %args, i64 %units, i64 %fewer, i64 0, ptr %scratch)
  br label %seek
seek:
  %s = phi i64 [ 1, %together ], [ %s1, %sought ]
  %unsought = icmp ult i64 %s, %fewer
  br i1 %unsought, label %try, label %join
try:
  %seat = call ptr @line(ptr %control, i64 %s)
  %owner = load atomic i64, ptr %seat monotonic, align 8
  %claimed = icmp eq i64 %owner, %job
  br i1 %claimed, label %sought, label %take
take:
  %pair = cmpxchg ptr %seat, i64 %owner, i64 %job acq_rel monotonic
  %taken = extractvalue { i64, i1 } %pair, 1
  br i1 %taken, label %work, label %sought
work:
  call void @part(ptr %function, ptr %args, i64 %units, i64 %fewer, i64 %s, ptr %scratch)
  %finished = getelementptr i64, ptr %seat, i64 1
  store atomic i64 %job, ptr %finished monotonic, align 8
  br label %sought
sought:
  %s1 = add i64 %s, 1
  br label %seek
join:
  %j = phi i64 [ 1, %seek ], [ %j1, %joined ]
  %unjoined = icmp ult i64 %j, %fewer
  br i1 %unjoined, label %await, label %end
await:
  %line = call ptr @line(ptr %control, i64 %j)
  call void @await(ptr %control, ptr %line, i64 %job)
  br label %joined
joined:
  %j1 = add i64 %j, 1
  br label %join
end:
  ret void
}

define internal void @await(ptr %control, ptr %line, i64 %job) {
start:
  %done = getelementptr i64, ptr %line, i64 1
  %awaited = getelementptr i64, ptr %line, i64 3
  %patiences = getelementptr i64, ptr %control, i64 49
  %short = load i64, ptr %patiences
  %patience = mul i64 %short, 16              ; its part is being worked on: it is not far
  %since = call i64 @nanoseconds()
  br label %look
look:
  %state = load atomic i64, ptr %done acquire, align 8
  %ready = icmp eq i64 %state, %job
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
  %again = load atomic i64, ptr %done seq_cst, align 8
  %over = icmp eq i64 %again, %job
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

; Takes a word from 0 to 1; says whether it was this caller who did.
define internal i64 @seize(ptr %word) {
  %pair = cmpxchg ptr %word, i64 0, i64 1 acq_rel monotonic
  %taken = extractvalue { i64, i1 } %pair, 1
  %result = zext i1 %taken to i64
  ret i64 %result
}

define internal void @release(ptr %word) {
  store atomic i64 0, ptr %word release, align 8
  ret void
}

define internal i64 @nanoseconds() {
  %time = alloca [2 x i64]
  %code = call i32 @clock_gettime(i32 $clock, ptr %time)
  %parts = getelementptr i64, ptr %time, i64 1
  %seconds = load i64, ptr %time
  %rest = load i64, ptr %parts
  %whole = mul i64 %seconds, 1000000000
  %sum = add i64 %whole, %rest
  ret i64 %sum
}

; Where the system offers no better.
define internal void @place_anywhere(ptr %control) {
  ret void
}

declare i32 @clock_gettime(i32, ptr)

declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.usub.sat.i64(i64, i64)
