// A tail that was computed as n - 64 for a small n.
//! args: 40
//! twin args: 100
//! says: a size is negative: [-24]
//! says: VSET.f32 $10, $0, #1.0 (negative-size.s:@1)
 .entry main
main:
    LI $10, #nram(0)
    SADD $0, $0, #-64
    VSET $10, $0, #1              //@1
