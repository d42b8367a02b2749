//! The string formats Kubernetes checks in custom resources. Any other format is a note to readers;
//! so are `k8s-short-name` and `k8s-long-name`, which 1.34 knows but leaves to the next release to enforce.

mod net;
mod time;

use std::sync::LazyLock;

use net::{address, cidr, email, hostname, mac, uri};
use regex::Regex;
use time::{date, date_time, duration};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    BsonObjectId,
    Uri,
    Email,
    Hostname,
    Ipv4,
    Ipv6,
    Cidr,
    Mac,
    Uuid,
    Uuid3,
    Uuid4,
    Uuid5,
    Isbn,
    Isbn10,
    Isbn13,
    CreditCard,
    Ssn,
    HexColor,
    RgbColor,
    Byte,
    Password,
    Date,
    Duration,
    DateTime,
}

impl Format {
    /// Dashes do not count: `date-time` and `datetime` are one format.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name.replace('-', "").as_str() {
            "bsonobjectid" => Self::BsonObjectId,
            "uri" => Self::Uri,
            "email" => Self::Email,
            "hostname" => Self::Hostname,
            "ipv4" => Self::Ipv4,
            "ipv6" => Self::Ipv6,
            "cidr" => Self::Cidr,
            "mac" => Self::Mac,
            "uuid" => Self::Uuid,
            "uuid3" => Self::Uuid3,
            "uuid4" => Self::Uuid4,
            "uuid5" => Self::Uuid5,
            "isbn" => Self::Isbn,
            "isbn10" => Self::Isbn10,
            "isbn13" => Self::Isbn13,
            "creditcard" => Self::CreditCard,
            "ssn" => Self::Ssn,
            "hexcolor" => Self::HexColor,
            "rgbcolor" => Self::RgbColor,
            "byte" => Self::Byte,
            "password" => Self::Password,
            "date" => Self::Date,
            "duration" => Self::Duration,
            "datetime" => Self::DateTime,
            _ => return None,
        })
    }

    pub fn fits(self, text: &str) -> bool {
        match self {
            Self::BsonObjectId => text.len() == 24 && hex(text),
            Self::Uri => uri(text),
            Self::Email => email(text),
            Self::Hostname => hostname(text),
            Self::Ipv4 => text.contains('.') && address(text).is_some(),
            Self::Ipv6 => text.contains(':') && address(text).is_some(),
            Self::Cidr => cidr(text),
            Self::Mac => mac(text),
            Self::Uuid => uuid(text, None),
            Self::Uuid3 => uuid(text, Some(b'3')),
            Self::Uuid4 => uuid(text, Some(b'4')),
            Self::Uuid5 => uuid(text, Some(b'5')),
            Self::Isbn => isbn10(text) || isbn13(text),
            Self::Isbn10 => isbn10(text),
            Self::Isbn13 => isbn13(text),
            Self::CreditCard => credit_card(text),
            Self::Ssn => ssn(text),
            Self::HexColor => {
                let digits = text.strip_prefix('#').unwrap_or(text);
                matches!(digits.len(), 3 | 6) && hex(digits)
            }
            Self::RgbColor => RGB.is_match(text),
            Self::Byte => base64(text),
            Self::Password => true,
            Self::Date => date(text),
            Self::Duration => duration(text),
            Self::DateTime => date_time(text),
        }
    }
}

#[expect(clippy::expect_used, reason = "the patterns are constants, compiled by the tests")]
fn constant(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a constant pattern")
}

static RGB: LazyLock<Regex> = LazyLock::new(|| {
    let number = "(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])";
    let space = r"[\t\n\f\r ]*";
    constant(&format!(r"^rgb\({space}{number}{space},{space}{number}{space},{space}{number}{space}\)$"))
});

fn hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// With or without dashes between the groups; the version is the first digit of the third group.
fn uuid(text: &str, version: Option<u8>) -> bool {
    let mut digits = [0u8; 32];
    let mut count = 0;
    let mut dash = false;
    for byte in text.bytes() {
        if byte == b'-' {
            if dash || !matches!(count, 8 | 12 | 16 | 20) {
                return false;
            }
            dash = true;
        } else if count < 32 && byte.is_ascii_hexdigit() {
            digits[count] = byte.to_ascii_lowercase();
            count += 1;
            dash = false;
        } else {
            return false;
        }
    }
    let variant = !matches!(version, Some(b'4' | b'5')) || b"89ab".contains(&digits[16]);
    count == 32 && !dash && variant && version.is_none_or(|version| digits[12] == version)
}

fn without_spaces(text: &str) -> Vec<u8> {
    text.bytes().filter(|b| !b.is_ascii_whitespace() && *b != b'-').collect()
}

fn isbn10(text: &str) -> bool {
    let bytes = without_spaces(text);
    if bytes.len() != 10 {
        return false;
    }
    let mut sum = 0;
    for (weight, byte) in (1u32..).zip(&bytes) {
        sum += weight
            * match byte {
                b'0'..=b'9' => u32::from(byte - b'0'),
                b'X' if weight == 10 => 10,
                _ => return false,
            };
    }
    sum % 11 == 0
}

fn isbn13(text: &str) -> bool {
    let bytes = without_spaces(text);
    if bytes.len() != 13 || !bytes.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let sum: u32 = bytes.iter().zip([1, 3].into_iter().cycle()).map(|(b, factor)| u32::from(b - b'0') * factor).sum();
    sum.is_multiple_of(10)
}

fn credit_card(text: &str) -> bool {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_digit).collect();
    let starts = |prefix: &str| digits.starts_with(prefix.as_bytes());
    let second = |range: std::ops::RangeInclusive<u8>| digits.get(1).is_some_and(|d| range.contains(d));
    let third = |range: std::ops::RangeInclusive<u8>| digits.get(2).is_some_and(|d| range.contains(d));
    let issued = match digits.len() {
        13 => starts("4"),
        14 => (starts("30") && third(b'0'..=b'5')) || starts("36") || starts("38"),
        15 => starts("34") || starts("37") || starts("2131") || starts("1800"),
        16 => starts("4") || (starts("5") && second(b'1'..=b'5')) || starts("6011") || starts("65") || starts("35"),
        _ => false,
    };
    let sum: u32 = digits
        .iter()
        .rev()
        .zip([false, true].into_iter().cycle())
        .map(|(digit, double)| {
            let digit = u32::from(digit - b'0');
            if double { digit * 2 / 10 + digit * 2 % 10 } else { digit }
        })
        .sum();
    issued && sum.is_multiple_of(10)
}

/// Three, two and four digits; with both separators only, since the length must be eleven.
fn ssn(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 11
        && bytes.iter().enumerate().all(|(at, b)| match at {
            3 | 6 => b"- ".contains(b),
            _ => b.is_ascii_digit(),
        })
}

/// Padded and not empty.
fn base64(text: &str) -> bool {
    let bytes = text.as_bytes();
    let padding = bytes.iter().rev().take_while(|b| **b == b'=').count();
    let word = |b: &u8| b.is_ascii_alphanumeric() || b"+/".contains(b);
    !bytes.is_empty()
        && bytes.len().is_multiple_of(4)
        && padding <= 2
        && bytes[..bytes.len() - padding].iter().all(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_tells_good_from_bad() {
        let cases: &[(&str, &[&str], &[&str])] = &[
            ("bsonobjectid", &["507f1f77bcf86cd799439011"], &["507f", "507f1f77bcf86cd79943901g"]),
            (
                "uri",
                &["/a/b", "https://a:80/x?y=%zz", "mailto:a@b", "http://[::1]:80/", "*", "//a/b"],
                &["", "abc", ":a", "http://a b/", "http://a/%zz", "http://[::1", "http://a:x/"],
            ),
            (
                "email",
                &["a@b", "some@example.com", "Name Surname <a@b.c>", "\"x y\"@b"],
                &["", "a", "@b", "a@", "a@b>", "a b@c"],
            ),
            ("hostname", &["a", "example.com", "1a.b.com", "a-b.com"], &["", "-a", "a.b.1", "a..b", "a_b.com"]),
            ("ipv4", &["1.2.3.4", "010.1.1.1", "::ffff:1.2.3.4"], &["1.2.3", "256.1.1.1", "::1", ""]),
            ("ipv6", &["::1", "2001:db8::1", "::ffff:1.2.3.4"], &["1.2.3.4", ":::", ""]),
            ("cidr", &["10.0.0.0/8", "::/0", "10.1.2.3/08"], &["10.0.0.0", "10.0.0.0/33", "x/8", "10.0.0.0/-1"]),
            (
                "mac",
                &["01:02:03:04:05:06", "01-02-03-04-05-06", "0102.0304.0506"],
                &["01:02:03:04:05", "x", "01:02:03:04:05:0g"],
            ),
            (
                "uuid",
                &["A987FBC9-4BED-3078-CF07-9141BA07C9F3", "a987fbc94bed3078cf079141ba07c9f3"],
                &["", "a987", "a987fbc9-4bed-3078-cf07-9141ba07c9f3-"],
            ),
            ("uuid3", &["a987fbc9-4bed-3078-cf07-9141ba07c9f3"], &["a987fbc9-4bed-4078-cf07-9141ba07c9f3"]),
            ("uuid4", &["57b73598-8764-4ad0-a76a-679bb6640eb1"], &["57b73598-8764-4ad0-c76a-679bb6640eb1"]),
            ("uuid5", &["987fbc97-4bed-5078-af07-9141ba07c9f3"], &["987fbc97-4bed-4078-af07-9141ba07c9f3"]),
            ("isbn", &["0321751043", "978-0321751041"], &["0321751042", "1"]),
            ("isbn10", &["3836221195", "1-61729-085-8"], &["978-0321751041"]),
            ("isbn13", &["978 3 8362 2119 1"], &["3836221195"]),
            ("creditcard", &["4111-1111-1111-1111", "375556917985515"], &["4111-1111-1111-1112", "1"]),
            ("ssn", &["111-11-1111", "111 11 1111"], &["111111111", "1111-1-1111"]),
            ("hexcolor", &["#fff", "ABCDEF"], &["#ffff", "#ggg", ""]),
            ("rgbcolor", &["rgb(0, 31,255)", "rgb(100,1,1)"], &["rgb(256,0,0)", "rgb(1,1)"]),
            ("byte", &["AA==", "AAAA", "ab+/"], &["", "AAA", "A===", "A A="]),
            ("password", &["", "x"], &[]),
            ("date", &["2000-02-29", "1999-12-31"], &["1999-02-29", "2000-13-01", "2000-1-01", "2000-01-01T"]),
            ("duration", &["1h2m", "0", "-1.5s", "22 ns", "3 days", "1 hour", "5w"], &["", "5", "h", "-", "one day"]),
            (
                "date-time",
                &["2000-01-01T00:00:00Z", "2000-01-01t23:59:59.5+01:00", "2000-01-01T00:00:00,5z"],
                &[
                    "2000-01-01",
                    "2000-01-01T24:00:00Z",
                    "2000-01-01T00:00:00",
                    "2000-01-01T00:00:00.Z",
                    "2000-01-01T00:00Z",
                ],
            ),
        ];
        for (name, good, bad) in cases {
            let format = Format::named(name).unwrap_or_else(|| panic!("{name} is unknown"));
            for text in *good {
                assert!(format.fits(text), "{text:?} is a {name}");
            }
            for text in *bad {
                assert!(!format.fits(text), "{text:?} is no {name}");
            }
        }
    }

    #[test]
    fn numeric_and_unknown_formats_are_notes_to_readers() {
        for name in ["int32", "int64", "float", "double", "quantity", "int-or-string", "made-up", "k8s-short-name", ""]
        {
            assert_eq!(Format::named(name), None);
        }
    }
}
