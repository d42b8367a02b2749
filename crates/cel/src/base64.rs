//! Base64 as JSON carries bytes: the standard alphabet, padded, line breaks ignored.

pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut held, mut count, mut padding) = (0u32, 0u32, 0usize, 0usize);
    for byte in text.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n')) {
        count += 1;
        if byte == b'=' {
            padding += 1;
            continue;
        }
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        if padding > 0 {
            return None;
        }
        bits = bits << 6 | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
            bits &= (1 << held) - 1;
        }
    }
    (count % 4 == 0 && padding as u32 == held / 2 && padding <= 2).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn only_padded_base64_is_read() {
        assert_eq!(decode("aGVsbG8=").as_deref(), Some(b"hello".as_slice()));
        assert_eq!(decode("aGVs\nbG8h").as_deref(), Some(b"hello!".as_slice()));
        assert_eq!(decode("aA==").as_deref(), Some(b"h".as_slice()));
        assert_eq!(decode("").as_deref(), Some(b"".as_slice()));
        for bad in ["a", "aGVsbG8", "aGVsbG8==", "aA=a", "=", "a-b_", "===="] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }
}
