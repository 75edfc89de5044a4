//! Hashes whose values are stored or shown: the same in every build and on every platform. Never for secrets, and never
//! for tables that somebody else fills.

/// Where a 64-bit FNV hash begins.
pub(crate) const FNV_BASIS_64: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME_64: u64 = 0x0000_0100_0000_01b3;
const FNV_BASIS_32: u32 = 0x811c_9dc5;
const FNV_PRIME_32: u32 = 0x0100_0193;

/// FNV-1a of 32 bits.
pub(crate) fn fnv1a_32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(FNV_BASIS_32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(FNV_PRIME_32))
}

/// FNV-1a of 64 bits, from a start that the caller chooses.
pub(crate) fn fnv1a_64(start: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME_64))
}

/// A variant of FNV-1a for long texts: it reads eight bytes at a time, and rotates so that high bits reach low ones.
pub(crate) fn fnv_words(start: u64, bytes: &[u8]) -> u64 {
    let step = |hash: u64, word: u64| (hash ^ word).wrapping_mul(FNV_PRIME_64).rotate_left(29);
    let (words, rest) = bytes.as_chunks::<8>();
    let hash = words.iter().fold(start, |hash, word| step(hash, u64::from_le_bytes(*word)));
    rest.iter().fold(hash, |hash, byte| step(hash, u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of the authors of FNV.
    #[test]
    fn fnv1a_has_the_published_values() {
        assert_eq!(fnv1a_32(b""), 0x811c_9dc5);
        assert_eq!(fnv1a_32(b"a"), 0xe40c_292c);
        assert_eq!(fnv1a_32(b"foobar"), 0xbf9c_f968);
        assert_eq!(fnv1a_64(FNV_BASIS_64, b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a_64(FNV_BASIS_64, b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a_64(FNV_BASIS_64, b"foobar"), 0x8594_4171_f739_67e8);
    }

    /// Simulated answers of earlier builds depend on these values.
    #[test]
    fn fnv_words_keeps_its_values() {
        assert_eq!(fnv_words(FNV_BASIS_64, b""), FNV_BASIS_64);
        assert_eq!(fnv_words(FNV_BASIS_64, b"a"), 0x90c0_3d91_95ec_7b89);
        assert_eq!(fnv_words(7, b"a prompt of some words"), 0x16c6_2405_7591_319a);
    }
}
