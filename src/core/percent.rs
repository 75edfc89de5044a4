//! Which characters of a text a URL writes as `%XX`: all but the unreserved ones of RFC 3986.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};

const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A text as one part of a URL; what it writes in hexadecimal digits has upper case.
pub fn percent_encoded(text: &str) -> PercentEncode<'_> {
    utf8_percent_encode(text, RESERVED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unreserved_characters_stay_as_they_are() {
        assert_eq!(percent_encoded("AZaz09-._~").to_string(), "AZaz09-._~");
        assert_eq!(percent_encoded("a b/c?d=e&f%g+\u{e9}\n").to_string(), "a%20b%2Fc%3Fd%3De%26f%25g%2B%C3%A9%0A");
    }
}
