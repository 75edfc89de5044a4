//! Decides where a token stands in the table of its vocabulary.
//!
//! The build script lays the tables out with it and the library finds tokens with it: both compile this one file.

const FIRST: u64 = 0x9e37_79b9_7f4a_7c15;
const SECOND: u64 = 0xd6e8_feb8_6659_fd93;

/// Any bytes as a number whose every bit depends on all of them.
#[inline]
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    // The first and the last word overlap where there are fewer than two: nothing is copied to be padded.
    let (first, last) = if let (Some(first), Some(last)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        (u64::from_le_bytes(*first), u64::from_le_bytes(*last))
    } else if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        (u64::from(u32::from_le_bytes(*first)), u64::from(u32::from_le_bytes(*last)))
    } else if let (Some(first), Some(last)) = (bytes.first(), bytes.last()) {
        (u64::from(*first) << 8 | u64::from(bytes[bytes.len() / 2]), u64::from(*last))
    } else {
        (0, 0)
    };
    let mut state = fold(first ^ FIRST, last ^ SECOND ^ bytes.len() as u64);
    if bytes.len() > 16 {
        for middle in bytes.as_chunks::<8>().0 {
            state = fold(state ^ u64::from_le_bytes(*middle), SECOND);
        }
    }
    state
}

fn fold(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    product as u64 ^ (product >> 64) as u64
}
