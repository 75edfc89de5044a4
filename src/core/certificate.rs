//! Decides whether a certificate is that of an authority: whether its basic constraints say CA.
//!
//! The library that verifies connections takes every root it is given for an authority, so roots are filtered before.
//! Reads only as much DER as that takes. Never verifies a signature, a name or a date.

/// The object identifier of the basic constraints, 2.5.29.19.
const BASIC_CONSTRAINTS: [u8; 3] = [0x55, 0x1d, 0x13];

const BOOLEAN: u8 = 0x01;
const OCTET_STRING: u8 = 0x04;
const OBJECT_IDENTIFIER: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
/// The tag of the extensions in a certificate of version 3.
const EXTENSIONS: u8 = 0xa3;

/// Whether this certificate, in DER, says that it is one of an authority. One that cannot be read is none.
pub fn is_authority(certificate: &[u8]) -> bool {
    says_ca(certificate).unwrap_or(false)
}

fn says_ca(certificate: &[u8]) -> Option<bool> {
    let (whole, _) = value(certificate, SEQUENCE)?;
    let (mut signed, _) = value(whole, SEQUENCE)?;
    // Version, serial number, names, dates and key come before the extensions.
    let extensions = loop {
        let (tag, content, rest) = element(signed)?;
        if tag == EXTENSIONS {
            break content;
        }
        signed = rest;
    };
    let (mut extensions, _) = value(extensions, SEQUENCE)?;
    while !extensions.is_empty() {
        let (extension, rest) = value(extensions, SEQUENCE)?;
        let (identifier, mut about) = value(extension, OBJECT_IDENTIFIER)?;
        if identifier == BASIC_CONSTRAINTS {
            // Whether it is critical stands before the value, where it is.
            if let Some((_, after)) = value(about, BOOLEAN) {
                about = after;
            }
            let (constraints, _) = value(value(about, OCTET_STRING)?.0, SEQUENCE)?;
            return Some(value(constraints, BOOLEAN).is_some_and(|(ca, _)| ca == [0xff]));
        }
        extensions = rest;
    }
    None
}

/// The content of the first element, which must have this tag, and what comes after it.
fn value(der: &[u8], wanted: u8) -> Option<(&[u8], &[u8])> {
    let (tag, content, rest) = element(der)?;
    (tag == wanted).then_some((content, rest))
}

/// The tag and the content of the first element, and what comes after it.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn der(tag: u8, content: &[u8]) -> Vec<u8> {
        let length = content.len();
        let mut made = vec![tag];
        match u8::try_from(length) {
            Ok(short) if short < 0x80 => made.push(short),
            _ => made.extend([0x82, (length >> 8) as u8, length as u8]),
        }
        made.extend_from_slice(content);
        made
    }

    /// A certificate as far as it is read: a serial number, a long name and these extensions.
    fn certificate(extensions: &[Vec<u8>]) -> Vec<u8> {
        let extensions = der(EXTENSIONS, &der(SEQUENCE, &extensions.concat()));
        let signed = [der(0x02, &[1]), der(SEQUENCE, &[0; 300]), extensions].concat();
        der(SEQUENCE, &[der(SEQUENCE, &signed), der(SEQUENCE, &[])].concat())
    }

    fn extension(identifier: &[u8], is_critical: bool, content: &[u8]) -> Vec<u8> {
        let critical = if is_critical { der(BOOLEAN, &[0xff]) } else { Vec::new() };
        let parts = [der(OBJECT_IDENTIFIER, identifier), critical, der(OCTET_STRING, content)];
        der(SEQUENCE, &parts.concat())
    }

    #[test]
    fn certificate_is_an_authority_if_its_constraints_say_so() {
        let other = extension(&[0x55, 0x1d, 0x0e], false, &der(OCTET_STRING, &[7; 20]));
        let says = |constraints: &[u8], is_critical| {
            let constraints = extension(&BASIC_CONSTRAINTS, is_critical, &der(SEQUENCE, constraints));
            is_authority(&certificate(&[other.clone(), constraints]))
        };
        for is_critical in [true, false] {
            assert!(says(&der(BOOLEAN, &[0xff]), is_critical));
            assert!(says(&[der(BOOLEAN, &[0xff]), der(0x02, &[0])].concat(), is_critical));
            assert!(!says(&der(BOOLEAN, &[0]), is_critical));
            assert!(!says(&[], is_critical));
        }
        assert!(!is_authority(&certificate(&[other])));
        assert!(!is_authority(&certificate(&[])));
    }

    proptest! {
        #[test]
        fn damaged_certificate_is_read_without_panic(cut in 0usize..400, at in 0usize..400, byte: u8) {
            let constraints = extension(&BASIC_CONSTRAINTS, true, &der(SEQUENCE, &der(BOOLEAN, &[0xff])));
            let mut bytes = certificate(&[constraints]);
            let length = bytes.len();
            bytes[at % length] = byte;
            bytes.truncate(cut);
            is_authority(&bytes);
        }
    }
}
