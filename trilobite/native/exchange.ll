; Exchanges between processes: lists of small operations that a block walks through as messages arrive. What a
; list means is for whoever writes it (`exchange.py` names the words); here are only calls of MPI by address.
;
; A block, in 8-byte words:
;   0      0 done, 1 on its way, 2 Python must look      1      the operation that is next
;   2, 3   operations and their number                   4..6   bases that addresses begin at: 0, operand, result
;   7      messages not yet waited for                   8, 9   memory for requests and for statuses of MPI
;   10     the link                                      11     address of a count of the group's exchanges
;   12     the tag of this one                           13     what MPI gave back, if not 0
;   14, 15 nanoseconds at which it began and was done    16, 17 nanoseconds waited, and how often it began
;   18     a flag for MPI                                19     nanoseconds that a wait lasts before Python looks
;   20     the next block on its way                     21     microseconds of rest between looks; 0: none
; The link: 0..2 addresses of MPI_Isend, MPI_Irecv and MPI_Testall, 3 the handle of MPI_BYTE, 4 bytes of a request,
; 5 the first block on its way, 6 scratch memory for kernels, 7 1 while somebody is at it.
; An operation is 10 words, the first of which says what it is (the cases of the switch below).

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i32 @usleep(i32)

define internal ptr @exchange_address(ptr %block, ptr %at) {
  %base = load i64, ptr %at
  %offset_at = getelementptr i64, ptr %at, i64 1
  %offset = load i64, ptr %offset_at
  %slot = add i64 %base, 4
  %base_at = getelementptr i64, ptr %block, i64 %slot
  %begin = load i64, ptr %base_at
  %sum = add i64 %begin, %offset
  %address = inttoptr i64 %sum to ptr
  ret ptr %address
}

define internal void @exchange_copy(ptr %block, ptr %op) {
start:
  %to_at = getelementptr i64, ptr %op, i64 1
  %from_at = getelementptr i64, ptr %op, i64 3
  %to = call ptr @exchange_address(ptr %block, ptr %to_at)
  %from = call ptr @exchange_address(ptr %block, ptr %from_at)
  %rows_at = getelementptr i64, ptr %op, i64 5
  %bytes_at = getelementptr i64, ptr %op, i64 6
  %to_stride_at = getelementptr i64, ptr %op, i64 7
  %from_stride_at = getelementptr i64, ptr %op, i64 8
  %rows = load i64, ptr %rows_at
  %bytes = load i64, ptr %bytes_at
  %to_stride = load i64, ptr %to_stride_at
  %from_stride = load i64, ptr %from_stride_at
  br label %each
each:
  %i = phi i64 [ 0, %start ], [ %i1, %one ]
  %some = icmp slt i64 %i, %rows
  br i1 %some, label %one, label %end
one:
  %to_offset = mul i64 %i, %to_stride
  %from_offset = mul i64 %i, %from_stride
  %target = getelementptr i8, ptr %to, i64 %to_offset
  %source = getelementptr i8, ptr %from, i64 %from_offset
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %source, i64 %bytes, i1 false)
  %i1 = add i64 %i, 1
  br label %each
end:
  ret void
}

; A kernel over all its units; words of its arguments that lie in the operand or the result are filled in.
define internal void @exchange_kernel(ptr %block, ptr %op) {
start:
  %function_at = getelementptr i64, ptr %op, i64 1
  %args_at = getelementptr i64, ptr %op, i64 2
  %units_at = getelementptr i64, ptr %op, i64 3
  %patches_at = getelementptr i64, ptr %op, i64 4
  %count_at = getelementptr i64, ptr %op, i64 5
  %function = load ptr, ptr %function_at
  %args = load ptr, ptr %args_at
  %units = load i64, ptr %units_at
  %patches = load ptr, ptr %patches_at
  %count = load i64, ptr %count_at
  br label %each
each:
  %i = phi i64 [ 0, %start ], [ %i1, %one ]
  %some = icmp slt i64 %i, %count
  br i1 %some, label %one, label %go
one:
  %offset = mul i64 %i, 3
  %patch = getelementptr i64, ptr %patches, i64 %offset
  %word = load ptr, ptr %patch
  %place = getelementptr i64, ptr %patch, i64 1
  %address = call ptr @exchange_address(ptr %block, ptr %place)
  store ptr %address, ptr %word
  %i1 = add i64 %i, 1
  br label %each
go:
  %link_at = getelementptr i64, ptr %block, i64 10
  %link = load ptr, ptr %link_at
  %scratch_at = getelementptr i64, ptr %link, i64 6
  %scratch = load ptr, ptr %scratch_at
  call void %function(ptr %args, i64 0, i64 %units, ptr %scratch)
  ret void
}

; Hands a message to MPI, or room for one; its request stands behind those not yet waited for. What MPI gives back.
define internal i64 @exchange_post(ptr %block, ptr %op, i64 %kind) {
start:
  %place = getelementptr i64, ptr %op, i64 1
  %address = call ptr @exchange_address(ptr %block, ptr %place)
  %bytes_at = getelementptr i64, ptr %op, i64 3
  %peer_at = getelementptr i64, ptr %op, i64 4
  %comm_at = getelementptr i64, ptr %op, i64 5
  %fixed_at = getelementptr i64, ptr %op, i64 6
  %bytes = load i64, ptr %bytes_at
  %peer = load i64, ptr %peer_at
  %comm = load i64, ptr %comm_at
  %fixed = load i64, ptr %fixed_at
  %own_at = getelementptr i64, ptr %block, i64 12
  %own = load i64, ptr %own_at
  %numbered = icmp slt i64 %fixed, 0
  %tag = select i1 %numbered, i64 %own, i64 %fixed
  %link_at = getelementptr i64, ptr %block, i64 10
  %link = load ptr, ptr %link_at
  %byte_at = getelementptr i64, ptr %link, i64 3
  %byte = load i64, ptr %byte_at
  %width_at = getelementptr i64, ptr %link, i64 4
  %width = load i64, ptr %width_at
  %pending_at = getelementptr i64, ptr %block, i64 7
  %pending = load i64, ptr %pending_at
  %requests_at = getelementptr i64, ptr %block, i64 8
  %requests = load ptr, ptr %requests_at
  %behind = mul i64 %pending, %width
  %request = getelementptr i8, ptr %requests, i64 %behind
  %more = add i64 %pending, 1
  store i64 %more, ptr %pending_at
  %index = sub i64 %kind, 1
  %function_at = getelementptr ptr, ptr %link, i64 %index
  %function = load ptr, ptr %function_at
  %count = trunc i64 %bytes to i32
  %other = trunc i64 %peer to i32
  %tag32 = trunc i64 %tag to i32
  %code = call i32 %function(ptr %address, i32 %count, i64 %byte, i32 %other, i32 %tag32, i64 %comm, ptr %request)
  %wide = sext i32 %code to i64
  ret i64 %wide
}

; Hands a reduction to MPI: words of source and result, then count, datatype, operation, slots and the function. A
; slot is a communicator and whether an exchange of this process is at it; exchanges take slots by their numbers, so
; every member takes the same one. -1 if the slot is still in use, else what MPI gives back.
define internal i64 @exchange_reduce(ptr %block, ptr %op) {
start:
  %tag_at = getelementptr i64, ptr %block, i64 12
  %tag = load i64, ptr %tag_at
  %number = and i64 %tag, 7
  %twice = mul i64 %number, 2
  %slots_at = getelementptr i64, ptr %op, i64 8
  %slots = load ptr, ptr %slots_at
  %slot = getelementptr i64, ptr %slots, i64 %twice
  %busy_at = getelementptr i64, ptr %slot, i64 1
  %busy = load i64, ptr %busy_at
  %mine = ptrtoint ptr %block to i64
  %free = icmp eq i64 %busy, 0
  %again = icmp eq i64 %busy, %mine
  %may = or i1 %free, %again
  br i1 %may, label %go, label %later
later:
  ret i64 -1
go:
  store i64 %mine, ptr %busy_at
  %comm = load i64, ptr %slot
  %source_at = getelementptr i64, ptr %op, i64 1
  %result_at = getelementptr i64, ptr %op, i64 3
  %source = call ptr @exchange_address(ptr %block, ptr %source_at)
  %result = call ptr @exchange_address(ptr %block, ptr %result_at)
  %count_at = getelementptr i64, ptr %op, i64 5
  %datatype_at = getelementptr i64, ptr %op, i64 6
  %operation_at = getelementptr i64, ptr %op, i64 7
  %function_at = getelementptr i64, ptr %op, i64 9
  %count = load i64, ptr %count_at
  %datatype = load i64, ptr %datatype_at
  %operation = load i64, ptr %operation_at
  %function = load ptr, ptr %function_at
  %link_at = getelementptr i64, ptr %block, i64 10
  %link = load ptr, ptr %link_at
  %width_at = getelementptr i64, ptr %link, i64 4
  %width = load i64, ptr %width_at
  %pending_at = getelementptr i64, ptr %block, i64 7
  %pending = load i64, ptr %pending_at
  %requests_at = getelementptr i64, ptr %block, i64 8
  %requests = load ptr, ptr %requests_at
  %behind = mul i64 %pending, %width
  %request = getelementptr i8, ptr %requests, i64 %behind
  %more = add i64 %pending, 1
  store i64 %more, ptr %pending_at
  %short = trunc i64 %count to i32
  %code = call i32 %function(ptr %source, ptr %result, i32 %short, i64 %datatype, i64 %operation, i64 %comm, ptr %request)
  %wide = zext i32 %code to i64
  ret i64 %wide
}

; The slot of this exchange is free for the one that comes so many later.
define internal void @exchange_free(ptr %block, ptr %op) {
start:
  %tag_at = getelementptr i64, ptr %block, i64 12
  %tag = load i64, ptr %tag_at
  %number = and i64 %tag, 7
  %twice = mul i64 %number, 2
  %slots_at = getelementptr i64, ptr %op, i64 1
  %slots = load ptr, ptr %slots_at
  %slot = getelementptr i64, ptr %slots, i64 %twice
  %busy_at = getelementptr i64, ptr %slot, i64 1
  store i64 0, ptr %busy_at
  ret void
}

; Are all messages there that were not waited for? 1 if so.
define internal i64 @exchange_arrived(ptr %block) {
start:
  %pending_at = getelementptr i64, ptr %block, i64 7
  %pending = load i64, ptr %pending_at
  %none = icmp eq i64 %pending, 0
  br i1 %none, label %yes, label %ask
ask:
  %link_at = getelementptr i64, ptr %block, i64 10
  %link = load ptr, ptr %link_at
  %function_at = getelementptr ptr, ptr %link, i64 2
  %function = load ptr, ptr %function_at
  %requests_at = getelementptr i64, ptr %block, i64 8
  %requests = load ptr, ptr %requests_at
  %statuses_at = getelementptr i64, ptr %block, i64 9
  %statuses = load ptr, ptr %statuses_at
  %flag_at = getelementptr i64, ptr %block, i64 18
  store i64 0, ptr %flag_at
  %count = trunc i64 %pending to i32
  %code = call i32 %function(i32 %count, ptr %requests, ptr %flag_at, ptr %statuses)
  %bad = icmp ne i32 %code, 0
  br i1 %bad, label %wrong, label %look
wrong:
  %wide = sext i32 %code to i64
  %error_at = getelementptr i64, ptr %block, i64 13
  store i64 %wide, ptr %error_at
  ret i64 2
look:
  %flag = load i32, ptr %flag_at
  %there = icmp ne i32 %flag, 0
  br i1 %there, label %clear, label %no
clear:
  store i64 0, ptr %pending_at
  br label %yes
yes:
  ret i64 1
no:
  ret i64 0
}

; Goes on with a block as far as it gets without waiting.
define internal void @exchange_advance(ptr %block) {
start:
  %pc_at = getelementptr i64, ptr %block, i64 1
  %ops_at = getelementptr i64, ptr %block, i64 2
  %count_at = getelementptr i64, ptr %block, i64 3
  %error_at = getelementptr i64, ptr %block, i64 13
  %ops = load ptr, ptr %ops_at
  %count = load i64, ptr %count_at
  %state = load i64, ptr %block
  %going = icmp eq i64 %state, 1
  br i1 %going, label %next, label %later
next:
  %pc = load i64, ptr %pc_at
  %over = icmp sge i64 %pc, %count
  br i1 %over, label %done, label %operation
done:
  store i64 0, ptr %block
  %ended_at = getelementptr i64, ptr %block, i64 15
  %now = call i64 @nanoseconds()
  store i64 %now, ptr %ended_at
  ret void
operation:
  %offset = mul i64 %pc, 10
  %op = getelementptr i64, ptr %ops, i64 %offset
  %kind = load i64, ptr %op
  switch i64 %kind, label %look [ i64 0, label %wait
                                  i64 1, label %post
                                  i64 2, label %post
                                  i64 3, label %copy
                                  i64 4, label %check
                                  i64 5, label %kernel
                                  i64 7, label %zero
                                  i64 8, label %reduce
                                  i64 9, label %free ]
reduce:
  %reduced = call i64 @exchange_reduce(ptr %block, ptr %op)
  %begun = icmp eq i64 %reduced, 0
  br i1 %begun, label %forward, label %not_begun
not_begun:
  %taken = icmp eq i64 %reduced, -1
  br i1 %taken, label %later, label %refused
free:
  call void @exchange_free(ptr %block, ptr %op)
  br label %forward
wait:
  %arrived = call i64 @exchange_arrived(ptr %block)
  switch i64 %arrived, label %look [ i64 0, label %later
                                     i64 1, label %forward ]
later:
  ret void
post:
  %code = call i64 @exchange_post(ptr %block, ptr %op, i64 %kind)
  %fine = icmp eq i64 %code, 0
  br i1 %fine, label %forward, label %refused
refused:
  %given = phi i64 [ %code, %post ], [ %reduced, %not_begun ]
  store i64 %given, ptr %error_at
  br label %look
copy:
  call void @exchange_copy(ptr %block, ptr %op)
  br label %forward
check:                                            ; addresses of two times 16 bytes that must be equal
  %left_at = getelementptr i64, ptr %op, i64 1
  %right_at = getelementptr i64, ptr %op, i64 2
  %left = load ptr, ptr %left_at
  %right = load ptr, ptr %right_at
  %l = load i128, ptr %left, align 8
  %r = load i128, ptr %right, align 8
  %same = icmp eq i128 %l, %r
  br i1 %same, label %forward, label %look
kernel:
  call void @exchange_kernel(ptr %block, ptr %op)
  br label %forward
zero:
  %place = getelementptr i64, ptr %op, i64 1
  %address = call ptr @exchange_address(ptr %block, ptr %place)
  %bytes_at = getelementptr i64, ptr %op, i64 3
  %bytes = load i64, ptr %bytes_at
  call void @llvm.memset.p0.i64(ptr %address, i8 0, i64 %bytes, i1 false)
  br label %forward
forward:
  %pc1 = add i64 %pc, 1
  store i64 %pc1, ptr %pc_at
  br label %next
look:
  store i64 2, ptr %block
  ret void
}

define internal void @exchange_enter(ptr %link) {
start:
  %lock = getelementptr i64, ptr %link, i64 7
  br label %try
try:
  %got = call i64 @seize(ptr %lock)
  %free = icmp eq i64 %got, 1
  br i1 %free, label %in, label %again
again:
  call void @pause()
  br label %try
in:
  ret void
}

; Words: block, operand, result. Begins the exchange.
define internal void @exchange_start(ptr %args, i64 %begin, i64 %end, ptr %scratch) {
start:
  %block = load ptr, ptr %args
  %operand_at = getelementptr i64, ptr %args, i64 1
  %result_at = getelementptr i64, ptr %args, i64 2
  %operand = load i64, ptr %operand_at
  %result = load i64, ptr %result_at
  %x_at = getelementptr i64, ptr %block, i64 5
  %out_at = getelementptr i64, ptr %block, i64 6
  store i64 %operand, ptr %x_at
  store i64 %result, ptr %out_at
  %link_at = getelementptr i64, ptr %block, i64 10
  %link = load ptr, ptr %link_at
  call void @exchange_enter(ptr %link)
  %pc_at = getelementptr i64, ptr %block, i64 1
  store i64 0, ptr %pc_at
  %pending_at = getelementptr i64, ptr %block, i64 7
  store i64 0, ptr %pending_at
  %numbers_at = getelementptr i64, ptr %block, i64 11
  %numbers = load ptr, ptr %numbers_at
  %number = load i64, ptr %numbers
  %number1 = add i64 %number, 1
  store i64 %number1, ptr %numbers
  %tag = and i64 %number, 16383
  %tag_at = getelementptr i64, ptr %block, i64 12
  store i64 %tag, ptr %tag_at
  %error_at = getelementptr i64, ptr %block, i64 13
  store i64 0, ptr %error_at
  %begun_at = getelementptr i64, ptr %block, i64 14
  %now = call i64 @nanoseconds()
  store i64 %now, ptr %begun_at
  %runs_at = getelementptr i64, ptr %block, i64 17
  %runs = load i64, ptr %runs_at
  %runs1 = add i64 %runs, 1
  store i64 %runs1, ptr %runs_at
  %next_at = getelementptr i64, ptr %block, i64 20
  store i64 0, ptr %next_at
  store i64 1, ptr %block
  call void @exchange_advance(ptr %block)
  %status = load i64, ptr %block
  %over = icmp eq i64 %status, 0
  %first_at = getelementptr i64, ptr %link, i64 5
  br i1 %over, label %leave, label %find
find:                                             ; the end of the list: blocks go on in the order they began in
  %slot = phi ptr [ %first_at, %start ], [ %behind, %further ]
  %other = load ptr, ptr %slot
  %last = icmp eq ptr %other, null
  br i1 %last, label %append, label %further
further:
  %behind = getelementptr i64, ptr %other, i64 20
  br label %find
append:
  store ptr %block, ptr %slot
  br label %leave
leave:
  %lock = getelementptr i64, ptr %link, i64 7
  call void @release(ptr %lock)
  ret void
}

; Words: link. Goes on with all blocks that are on their way; those that are done leave the list, those that need
; Python keep their place.
define internal void @exchange_poll(ptr %args, i64 %begin, i64 %end, ptr %scratch) {
start:
  %link = load ptr, ptr %args
  %first_at = getelementptr i64, ptr %link, i64 5
  %first = load ptr, ptr %first_at
  %empty = icmp eq ptr %first, null
  br i1 %empty, label %end_, label %try
try:
  %lock = getelementptr i64, ptr %link, i64 7
  %got = call i64 @seize(ptr %lock)
  %free = icmp eq i64 %got, 1
  br i1 %free, label %each, label %end_
each:
  %slot = phi ptr [ %first_at, %try ], [ %slot, %drop ], [ %next_at, %keep ]
  %block = load ptr, ptr %slot
  %none = icmp eq ptr %block, null
  br i1 %none, label %leave, label %one
one:
  call void @exchange_advance(ptr %block)
  %status = load i64, ptr %block
  %over = icmp eq i64 %status, 0
  %next_at = getelementptr i64, ptr %block, i64 20
  br i1 %over, label %drop, label %keep
drop:
  %next = load ptr, ptr %next_at
  store ptr %next, ptr %slot
  br label %each
keep:
  br label %each
leave:
  call void @release(ptr %lock)
  br label %end_
end_:
  ret void
}

; Words: block. Goes on with all until this one is done, needs Python, or has been waited for long enough.
define internal void @exchange_wait(ptr %args, i64 %begin, i64 %end, ptr %scratch) {
start:
  %block = load ptr, ptr %args
  %status0 = load volatile i64, ptr %block
  %at_once = icmp ne i64 %status0, 1
  br i1 %at_once, label %quick, label %first
quick:
  ret void
first:
  %link_at = getelementptr i64, ptr %block, i64 10
  %since = call i64 @nanoseconds()
  %limit_at = getelementptr i64, ptr %block, i64 19
  %limit = load i64, ptr %limit_at
  %rest_at = getelementptr i64, ptr %block, i64 21
  %rest = load i64, ptr %rest_at
  %micros = trunc i64 %rest to i32
  %rests = icmp ne i64 %rest, 0
  br label %look
look:
  call void @exchange_poll(ptr %link_at, i64 0, i64 1, ptr null)
  %status = load volatile i64, ptr %block
  %going = icmp eq i64 %status, 1
  %now = call i64 @nanoseconds()
  %waited = sub i64 %now, %since
  %long = icmp sgt i64 %waited, %limit
  %stop = xor i1 %going, true
  %out = or i1 %stop, %long
  br i1 %out, label %end_, label %again
again:
  br i1 %rests, label %sleep, label %spin
sleep: ; others need the core
  %slept = call i32 @usleep(i32 %micros)
  br label %look
spin:
  call void @pause()
  br label %look
end_:
  %total_at = getelementptr i64, ptr %block, i64 16
  %total = load i64, ptr %total_at
  %total1 = add i64 %total, %waited
  store i64 %total1, ptr %total_at
  ret void
}
