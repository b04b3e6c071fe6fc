"""Programs on one core, a cluster and a chip: results, barriers, atomics, tasks, faults as text."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from trilobite.base.errors import ArgumentError, DeviceError, ProcessorFault, ShapeError
from trilobite.processor.device import Device, Kernel
from trilobite.processor.isa.assembler import assemble_program


def execute(source: str, args=(), machine="dlp-s", **options):
    device = machine if isinstance(machine, Device) else Device(machine)
    module = device.load(source)
    kernel = module[module.names[0]] if module.names else module
    return device.launch(kernel, args, **options)


def fault(source: str, args=(), machine="dlp-s", **options) -> str:
    with pytest.raises(ProcessorFault) as caught:
        execute(source, args, machine, **options)
    return str(caught.value)


def test_scalar_program_with_loop_call_and_memory() -> None:
    device = Device("dlp-s")
    out = device.array(np.zeros(4, np.int64))
    execute(
        """
        // factorial of 10 by a loop, fibonacci of 20 by a call, a float, a byte
        .entry main
        main: SMOVE $1, #10
              SMOVE $2, #1
        loop: SMUL $2, $2, $1
              SADD $1, $1, #-1
              CB #loop, $1
              SSTORE.i64 $2, $0, #0
              SMOVE $3, #20
              CALL $60, #fib
              SSTORE.i64 $4, $0, #8
              SMOVE.f32 $5, #1.5
              SMUL.f32 $5, $5, $5
              SSTORE.f32 $5, $0, #16
              SMOVE $6, #-2
              SSTORE.u8 $6, $0, #24
              SLOAD.u8 $7, $0, #24
              SSTORE.u8 $7, $0, #25
              SLOAD.i8 $8, $0, #24
              SSTORE.i16 $8, $0, #26
              RET $63
        fib:  SMOVE $4, #0
              SMOVE $5, #1
        next: SADD $6, $4, $5
              SMOVE $4, $5
              SMOVE $5, $6
              SADD $3, $3, #-1
              CB #next, $3
              RET $60
    """,
        [out],
        device,
    )
    got = out.numpy()
    assert got[0] == 3628800 and got[1] == 6765
    assert got.view(np.float32)[4] == 2.25
    assert got.view(np.uint8)[24:26].tolist() == [254, 254] and got.view(np.int16)[13] == -2


def test_vector_and_matrix_through_scratchpads(rng) -> None:
    device = Device("dlp-s")
    a, b = rng.standard_normal((9, 17)).astype(np.float16), rng.standard_normal((17, 5)).astype(np.float16)
    out = device.array(np.zeros((9, 5), np.float32))
    execute(
        """
        .equ A, nram(0)
        .equ C, nram(4096)
        LI $10, #A
        LI $11, #wram(0)
        LI $12, #C
        SMUL $20, $3, $5
        SMUL $21, $5, $4
        SMUL $22, $3, $4
        VLOAD.f16 $10, $20, $0, #0
        MLOAD.f16 $11, $21, $1, #0
        MM.f32.f16.f16 $12, $10, $11, $3, $6
        VMS $12, $22, $12, #2
        VSTORE.f32 $12, $22, $2, #0
    """,
        [device.array(a), device.array(b), out, 9, 5, 17],
        device,
    )
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert np.allclose(out.numpy(), 2 * exact, rtol=1e-5, atol=1e-5)


def test_strided_copies(rng) -> None:
    device = Device("dlp-s")
    image = rng.integers(0, 255, (6, 8, 10)).astype(np.uint8)
    out = device.array(np.zeros((3, 4, 5), np.uint8))
    execute(
        """
        LI $10, #nram(0)
        SADD $11, $0, #92        // image[1, 1, 2]
        SMOVE $2, #5
        SMOVE $3, #5             // dst_stride0, a_stride0, count0, dst_stride1, a_stride1, count1
        SMOVE $4, #10
        SMOVE $5, #4
        SMOVE $6, #20
        SMOVE $7, #160
        SMOVE $8, #3
        COPY3 $10, $11, $2, $3
        SMOVE $2, #60
        COPY $1, $10, $2
    """,
        [device.array(image), out],
        device,
    )
    expected = np.stack([image.reshape(-1)[92 + 160 * i :][:40].reshape(4, 10)[:, :5] for i in range(2)])
    assert (out.numpy()[:2] == expected).all()


def test_a_repeated_source_and_overlapping_vectors() -> None:
    device = Device("dlp-s")
    out = device.array(np.zeros((4, 3), np.int16))
    execute(
        """
        LI $10, #nram(0)
        SMOVE $1, #3
        SMOVE $2, #1
        VIOTA.i16 $10, $1, $2, $2
        SMOVE $3, #6
        SMOVE $4, #6
        SMOVE $5, #0
        SMOVE $6, #4
        LI $11, #nram(64)
        COPY2 $11, $10, $3, $4
        SADD $12, $11, #2
        SMOVE $7, #11
        VAV.i16 $12, $7, $12, $11   // dst overlaps both sources: all are read before anything is written
        SMOVE $8, #24
        COPY $0, $11, $8
    """,
        [out],
        device,
    )
    base = np.tile([1, 2, 3], 4)
    assert out.numpy().reshape(-1).tolist() == [1, *(base[1:] + base[:-1])]


def test_filter_count_reaches_the_register_and_random_is_repeatable() -> None:
    device = Device("dlp-s")
    out = device.array(np.zeros(2, np.int64))
    source = """
        LI $10, #nram(0)
        LI $11, #nram(4096)
        SMOVE $1, #500
        RV $10, $1
        VGTS $11, $1, $10, #0.75
        VFILT $10, $1, $10, $11, $5
        SSTORE.i64 $5, $0, #0
        SLOAD.f32 $6, $10, #0
        SSTORE.f32 $6, $0, #8
    """
    execute(source, [out], device, seed=3)
    first = out.numpy().copy()
    assert 80 < first[0] < 170 and first.view(np.float32)[2] > 0.75
    execute(source, [out], device, seed=3)
    assert (out.numpy() == first).all()
    execute(source, [out], device, seed=4)
    assert (out.numpy() != first).any()


def test_block_tasks_cover_grids_larger_than_the_chip() -> None:
    device = Device("dlp-m")
    out = device.array(np.zeros((3, 5, 7), np.int32))
    execute(
        """
        SREAD $1, #taskId
        SSHL $2, $1, #2
        SADD $2, $2, $0
        SREAD $3, #taskIdX
        SREAD $4, #taskIdY
        SREAD $5, #taskIdZ
        SMUL $4, $4, #10
        SMUL $5, $5, #100
        SADD $3, $3, $4
        SADD $3, $3, $5
        SSTORE.i32 $3, $2, #0
    """,
        [out],
        device,
        dim=(7, 5, 3),
    )
    z, y, x = np.indices((3, 5, 7))
    assert (out.numpy() == x + 10 * y + 100 * z).all()


UNION_SUM = """
    // the memory core brings a row into SRAM, each core adds its number to a quarter, core 0 stores the row
    .entry main
    .equ ROW, 64
    main:
        SREAD $1, #isMpu
        SREAD $2, #coreId
        SREAD $3, #taskIdX
        SREAD $7, #coreDim
        SDIV $3, $3, $7         // cluster of the grid
        LI $10, #sram(0)
        SMOVE $11, #ROW * 4
        SMUL $12, $3, $11
        SADD $12, $12, $0       // this cluster's row
        CBZ #wait, $1
        COPY $10, $12, $11
        SYNC
    wait:
        BARRIER.cluster
        CBNZ #done, $1
        LI $13, #nram(0)
        SMOVE $14, #ROW
        SMUL $15, $2, $14
        SADD $16, $10, $15      // a quarter of 64 bytes
        COPY $13, $16, $14
        SYNC
        SMOVE $17, #16
        SCVT.f32.i64 $18, $2
        VAS.f32 $13, $17, $13, $18
        SYNC
        COPY $16, $13, $14
        SYNC
    done:
        BARRIER.cluster
        CBNZ #end, $2           // core 0 alone stores
        COPY $12, $10, $11
        SYNC
    end: HALT
"""


@pytest.mark.parametrize("task", ["union1", "union2", "union4"])
def test_union_tasks_share_sram_and_meet(task: str, rng) -> None:
    device = Device("dlp-m")
    rows = rng.standard_normal((8, 64)).astype(np.float32)
    data = device.array(rows)
    run = execute(UNION_SUM, [data], device, dim=(32, 1, 1), task=task)
    assert (data.numpy() == rows + np.repeat(np.arange(4, dtype=np.float32), 16)).all()
    assert run.trace.rounds == 2 and len(run.trace.cores) == 20


def test_multicast_and_chip_barrier() -> None:
    device = Device("dlp-m")
    out = device.array(np.zeros((16, 8), np.int32))
    execute(
        """
        .entry main
        main: SREAD $1, #isMpu
            SREAD $2, #clusterId
            LI $10, #sram(0)
            LI $11, #nram(128)
            SMOVE $3, #32
            CBZ #meet, $1
            SADD $4, $2, #7
            SSTORE.i32 $4, $10, #0        // one word in SRAM
            SMOVE $5, #4
            SMOVE $6, #0b1011             // cores 0, 1 and 3
            COPYX $11, $10, $5, $6
            SYNC
        meet: BARRIER.chip
            CBNZ #end, $1
            SREAD $7, #taskId
            SSHL $8, $7, #5
            SADD $8, $8, $0
            COPY $8, $11, $3
        end: HALT
    """,
        [out],
        device,
        dim=(16, 1, 1),
        task="union4",
        checks=False,  # core 2 stores what nobody wrote, to show that nothing came
    )
    got = out.numpy()[:, 0].reshape(4, 4)
    assert got.tolist() == [[7 + c, 7 + c, 0, 7 + c] for c in range(4)]


def test_atomics_and_polling_are_canonical() -> None:
    device = Device("dlp-m")
    state = device.array(np.zeros(40, np.int64))
    source = """
        // every task takes a ticket and writes its number there; the last one opens a gate that task 0 polls
        SMOVE $1, #1
        ATOMIC.i64.add $2, $0, $1
        SREAD $3, #taskId
        SSHL $4, $2, #3
        SADD $4, $4, $0
        SSTORE.i64 $3, $4, #64
        CBNZ #others, $3
        poll: SLOAD.i64 $5, $0, #8
        CBZ #poll, $5
        SSTORE.i64 $5, $0, #16
        HALT
        others: SADD $6, $3, #-15
        CBNZ #end, $6
        SMOVE $7, #0
        SMOVE $8, #99
        SADD $9, $0, #8
        CAS.i64 $10, $9, $7, $8
        end: HALT
    """
    run = execute(source, [state], device, dim=(16, 1, 1))
    got = state.numpy()
    assert got[0] == 16 and got[2] == 99 and got[8:24].tolist() == list(range(16))
    assert run.trace.timing_dependent


def test_print_formats_like_c() -> None:
    run = execute("""
        .data
        text: .ascii "%d|%5d|%-4u|%x|%08.3f|%g|%c|%s|100%%\\n"
        word: .ascii "core"
        .text
        LA $1, text
        SMOVE $2, #-7
        SMOVE $3, #42
        SMOVE $4, #9
        SMOVE $5, #255
        SMOVE.f64 $6, #3.25
        SMOVE.f64 $7, #-0.5
        SMOVE $8, #65
        LA $9, word
        PRINT $1, $2
    """)
    assert run.printed == "-7|   42|9   |ff|0003.250|-0.5|A|core|100%\n"


@pytest.mark.parametrize(
    ("form", "value", "text"),
    [("%e", 12345.678, "1.234568e+04"), ("%E", 12345.678, "1.234568E+04"), ("%G", 1e-10, "1E-10"),
     ("%g", 1e-10, "1e-10"), ("%F", 2.5, "2.500000"), ("%f", 2.5, "2.500000"), ("%.2E", -0.5, "-5.00E-01"),
     ("%10.3G", 31.25, "      31.2"), ("%F", float("inf"), "INF"), ("%f", float("inf"), "inf")],
)  # fmt: skip
def test_floats_print_in_every_form_of_c(form: str, value: float, text: str) -> None:
    bits = int(np.float64(value).view(np.int64))
    run = execute(f"""
        .data
        text: .ascii "{form}"
        .text
        LA $1, text
        LI $2, #{bits}
        PRINT $1, $2
    """)
    assert run.printed == text


def test_stack_and_ldram_are_private_to_a_core() -> None:
    device = Device("dlp-m")
    out = device.array(np.zeros(16, np.int64))
    execute(
        """
        SREAD $1, #taskId
        SADD $62, $62, #-16
        SSTORE.i64 $1, $62, #8
        LI $2, #ldram(4096)
        SSTORE.i64 $1, $2, #0
        SLOAD.i64 $3, $62, #8
        SLOAD.i64 $4, $2, #0
        SADD $3, $3, $4
        SSHL $5, $1, #3
        SADD $5, $5, $0
        SSTORE.i64 $3, $5, #0
    """,
        [out],
        device,
        dim=(16, 1, 1),
    )
    assert out.numpy().tolist() == [2 * i for i in range(16)]


def test_faults_name_core_instruction_and_line() -> None:
    assert fault("LI $1, #nram(0x7fffe)\nSMOVE $2, #1\nVSET.f32 $1, $2, #1") == (
        "nram+0x7fffe is not aligned to the 4 bytes of f32\n"
        "  where: cluster 0 core 0, task 0, instruction 3: VSET.f32 $1, $2, #1.0 (<text>:3)\n"
        "  expected: dst[i] = the immediate\n  remedy: correct the program, or its arguments"
    )
    assert "bytes 524284 to 524292 reach outside the nram of 524288 bytes" in fault(
        "LI $1, #nram(0x7fffc)\nSMOVE $2, #2\nVSET.f32 $1, $2, #1"
    )
    assert "wram+0x0 was given where an address in nram is needed" in fault(
        "LI $1, #wram(0)\nSMOVE $2, #2\nVEXP $1, $2, $1"
    )
    assert "gdram+0x0 is a null pointer" in fault("SLOAD.i32 $2, $1, #0")
    assert "are in no allocated block" in fault("LI $1, #0x5000000\nSLOAD.i32 $2, $1, #0")
    assert "the address 0xff00000000000000 lies in no memory" in fault(
        "LI $1, #0xff << 56\nSLOAD.i32 $2, $1, #0"
    )
    assert "dlp-s has no sram" in fault("LI $1, #sram(0)\nSLOAD.i32 $2, $1, #0")
    assert "dlp-s has no acc" in fault("LI $1, #acc(0)\nSLOAD.i32 $2, $1, #0")
    assert "a size is negative: [-3]" in fault("LI $1, #nram(0)\nSMOVE $2, #-3\nVEXP $1, $2, $1")
    assert "the program trapped with code 77" in fault("TRAP #77")
    assert "the program jumps to instruction 9, outside its 2 instructions" in fault("SMOVE $1, #9\nJUMP $1")
    assert "there is no special register 99" in fault("SREAD $1, #99")
    assert "the mask 0x0 names no core" in fault("COPYX $1, $2, $3, $4")
    assert "10 elements are no whole number of rows of 3" in fault(
        "LI $1, #nram(0)\nSMOVE $2, #10\nSMOVE $3, #3\nVCAV $1, $2, $1, $1, $3"
    )
    assert "the launch ran over its limit of 1000 instructions" in fault("loop: JUMP #loop", limit=1000)


def test_a_fault_changes_nothing() -> None:
    device = Device("dlp-s")
    data = device.array(np.arange(8, dtype=np.float32))
    fault("LI $1, #nram(0)\nSMOVE $2, #9\nVSET $1, $2, #5\nVSTORE $1, $2, $0, #0", [data], device)
    assert data.numpy().tolist() == list(range(8))


def test_freed_memory_faults_and_neighbours_are_protected() -> None:
    device = Device("dlp-s")
    first, second = device.array(np.zeros(3, np.int32)), device.array(np.ones(3, np.int32))
    assert "are in no allocated block" in fault("SLOAD.i32 $2, $0, #12", [first], device)
    address = second.address
    second.free()
    assert "are in no allocated block" in fault("SLOAD.i32 $2, $0, #0", [address], device)


def test_memory_core_has_no_nram() -> None:
    source = """
    SREAD $1, #isMpu
    CBZ #end, $1
    LI $2, #nram(0)
    SLOAD.i32 $3, $2, #0
    end: HALT"""
    text = fault(source, machine="dlp-m", dim=(4, 1, 1), task="union1")
    assert text.startswith(
        "the memory core has no nram\n  where: cluster 0 memory core, task 0, instruction 4"
    )
    assert "(<text>:5)" in text


def test_deadlock_and_divergence() -> None:
    ended = fault(
        "SREAD $1, #coreId\nCBZ #end, $1\nBARRIER.cluster\nend: HALT",
        machine="dlp-m",
        dim=(4, 1, 1),
        task="union1",
    )
    assert ended.startswith("the barrier is deadlocked: cluster 0 core 1 waits for cluster 0 core 0, whose")
    source = "SREAD $1, #coreId\nCBZ #other, $1\nBARRIER.cluster\nHALT\nother: BARRIER.chip"
    apart = fault(source, machine="dlp-m", dim=(4, 1, 1), task="union1")
    assert apart.startswith(
        "the union task diverges: cluster 0 core 0 waits here, cluster 0 core 1 at another barrier"
    )


def test_barriers_of_the_other_kind_of_core_let_a_core_pass() -> None:
    """All run the same text: only compute cores meet at .ipu, only memory cores at .mpu."""
    source = """
    SREAD $1, #isMpu
    BARRIER.cluster.ipu
    BARRIER.chip.mpu
    CBNZ #end, $1
    SREAD $2, #taskId
    SMUL.i64 $3, $2, #4
    SADD.i64 $3, $0, $3
    SSTORE.i32 $2, $3, #0
    end: BARRIER.cluster"""
    device = Device("dlp-m")
    data = device.array(np.full(8, -1, np.int32))
    run = device.launch(device.load(source), [data], (8, 1, 1), "union2")
    assert data.numpy().tolist() == list(range(8)) and run.cycles > 0


def test_static_arrays_that_do_not_fit() -> None:
    text = fault(".nram\nx: .space 400 * 1024\n.text\nHALT")
    assert text.startswith("static arrays need 409600 bytes of nram, dlp-s has 393216")


def test_launch_arguments_are_checked() -> None:
    device = Device("dlp-m")
    module = device.load("HALT")
    for options, message in (
        ({"task": "union3"}, "there is no task type 'union3'"),
        ({"task": "union8", "dim": (32, 1, 1)}, "union8 needs 8 clusters, dlp-m has 4"),
        ({"task": "union1", "dim": (6, 1, 1)}, "dim x is 6 in a union1 launch"),
        ({"dim": (0, 1, 1)}, "a launch of .0, 1, 1. tasks"),
        ({"args": [1] * 33}, "33 arguments"),
        ({"args": ["text"]}, "a kernel cannot take a str"),
    ):
        with pytest.raises(ArgumentError, match=message):
            device.launch(module, **options)
    with pytest.raises(ArgumentError, match="the module has no entry 'main'"):
        module["main"]
    with pytest.raises(ArgumentError, match="the module has no entry 'main'"):
        device.launch(Kernel(module.program, "main"))
    two = device.load(".entry a\n.entry b\na: HALT\nb: HALT\n")
    with pytest.raises(ArgumentError, match="the module has several entries"):
        device.launch(two)


def test_device_memory_is_counted_and_reused() -> None:
    device = Device("dlp-s")
    a, b = device.empty((100,), "float32"), device.empty((3, 5), "bfloat16")
    assert device.statistics.used == 430 and device.statistics.arrays == 2
    assert b.numpy().dtype.name == "bfloat16"
    address = a.address
    del a
    gc.collect()
    assert device.statistics.used == 30 and device.statistics.peak == 430
    assert device.empty(100, "int8").address == address
    with pytest.raises(DeviceError, match="no room for"):
        device.empty((1 << 40,), "int8")
    with pytest.raises(ShapeError, match="values of shape"):
        b.write(np.zeros(4))
    with pytest.raises(ArgumentError, match="a device array of int4 would hold one value a byte"):
        device.empty(4, "int4")
    with pytest.raises(ArgumentError, match="cannot be placed at 0x0"):
        device.array(np.zeros(3), address=0)


def test_arrays_at_addresses_of_their_own_may_touch_but_not_share_a_byte() -> None:
    device = Device("dlp-s")
    held = [device.array(np.zeros(24, np.uint8), address=1000)]
    for start in (999, 1000, 1023, 977):
        with pytest.raises(ArgumentError, match="cannot be placed"):
            device.array(np.zeros(24, np.uint8), address=start)
    held += [device.array(np.zeros(24, np.uint8), address=start) for start in (976, 1024, 64, (1 << 20) - 24)]
    for start in (63, (1 << 20) - 23):
        with pytest.raises(ArgumentError, match="cannot be placed"):
            device.array(np.zeros(24, np.uint8), address=start)
    assert [each.address for each in held] == [1000, 976, 1024, 64, (1 << 20) - 24]


def test_programs_from_files(tmp_path) -> None:
    from trilobite.processor.tools.commands import asm

    path = tmp_path / "k.s"
    path.write_text(".entry k\nk: SMOVE $1, #5\nSSTORE.i32 $1, $0, #0\n")
    asm(str(path))
    device = Device("dlp-s")
    for name in ("k.s", "k.dlp"):
        out = device.array(np.zeros(1, np.int32))
        device.launch(device.load(tmp_path / name)["k"], [out])
        assert out.numpy()[0] == 5
    assert device.load(assemble_program("HALT")).names == []
    with pytest.raises(DeviceError, match="the program cannot be read"):
        device.load(str(tmp_path / "none.s"))


def test_int4_products_read_two_values_a_byte(rng) -> None:
    from trilobite.processor.isa.formats import I4, pack

    a, b = rng.integers(-8, 8, (6, 10)).astype(np.int8), rng.integers(-8, 8, (10, 4)).astype(np.int8)
    device = Device("dlp-s")
    out = device.array(np.zeros((6, 4), np.int32))
    execute("""
        LI $10, #nram(0)
        LI $11, #wram(0)
        LI $12, #nram(4096)
        SMOVE $20, #60
        SMOVE $21, #40
        SMOVE $22, #24
        SMOVE $30, #6
        SMOVE $31, #4
        SMOVE $32, #10
        VLOAD.i4 $10, $20, $0, #0
        MLOAD.i4 $11, $21, $1, #0
        MM.i32.i4.i4 $12, $10, $11, $30, $40
        VSTORE.i32 $12, $22, $2, #0
    """, [device.array(pack(I4, a)), device.array(pack(I4, b)), out], device)  # fmt: skip
    assert (out.numpy() == a.astype(int) @ b).all()
