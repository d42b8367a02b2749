//! Base64 of byte fields: checked, and brought to the one form Go writes.

use std::borrow::Cow;

/// Checks standard base64 as Go reads it (line breaks ignored). The error is the offset Go names.
pub(crate) fn base64(text: &str) -> Result<Cow<'_, str>, usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    let mut in_quantum = 0;
    let mut last = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        at += 1;
        match byte {
            b'\r' | b'\n' => {}
            b'=' => {
                let at = padding(bytes, at, in_quantum)?;
                return if at == bytes.len() { Ok(canonical(text, last, in_quantum)) } else { Err(at) };
            }
            _ => {
                last = digit(byte).ok_or(at - 1)?;
                in_quantum = (in_quantum + 1) % 4;
            }
        }
    }
    match in_quantum {
        0 => Ok(canonical(text, 0, 0)),
        left => Err(at - left),
    }
}

/// Writes standard base64.
pub(crate) fn to_base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for at in 0..4 {
            let digit = usize::try_from(word >> (18 - 6 * at) & 63).unwrap_or(0);
            out.push(if at <= chunk.len() { char::from(ALPHABET[digit]) } else { '=' });
        }
    }
    out
}

/// `at` stands behind the first `=`; returns where the text must end.
fn padding(bytes: &[u8], at: usize, in_quantum: usize) -> Result<usize, usize> {
    let skip = |mut at: usize| {
        while matches!(bytes.get(at), Some(b'\r' | b'\n')) {
            at += 1;
        }
        at
    };
    let at = match in_quantum {
        2 => {
            let second = skip(at);
            match bytes.get(second) {
                None => return Err(bytes.len()),
                Some(b'=') => second + 1,
                Some(_) => return Err(second.saturating_sub(1)),
            }
        }
        3 => at,
        _ => return Err(at - 1),
    };
    Ok(skip(at))
}

/// Line breaks go, and the unused bits of the last digit become zero.
fn canonical(text: &str, last: u8, in_quantum: usize) -> Cow<'_, str> {
    let spare = match in_quantum {
        2 => 0x0f,
        3 => 0x03,
        _ => 0,
    };
    if last & spare == 0 && !text.contains(['\r', '\n']) {
        return Cow::Borrowed(text);
    }
    let mut clean: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    if last & spare != 0 {
        let digits = clean.trim_end_matches('=').len();
        let pads = clean.split_off(digits);
        clean.pop();
        clean.push(char::from(ALPHABET[usize::from(last & !spare)]));
        clean.push_str(&pads);
    }
    Cow::Owned(clean)
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_checked_as_go_does() {
        for good in ["", "aGVsbG8=", "aGVsbA==", "aGVs"] {
            assert_eq!(base64(good).as_deref(), Ok(good));
        }
        assert_eq!(
            (to_base64(b""), to_base64(b"hello"), to_base64(b"hell")),
            ("".into(), "aGVsbG8=".into(), "aGVsbA==".into())
        );
        assert_eq!(base64("aGVs\nbG8=\n").as_deref(), Ok("aGVsbG8="));
        assert_eq!(base64("aGVsbG9=").as_deref(), Ok("aGVsbG8="));
        assert_eq!(base64("not base64"), Err(3));
        assert_eq!(base64("aGVsbG8"), Err(4));
        assert_eq!(base64("aGVsbA="), Err(7));
        assert_eq!(base64("="), Err(0));
        assert_eq!(base64("aGVsbG8=x"), Err(8));
    }
}
