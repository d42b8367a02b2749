//! Strict JSON: one pass from bytes to `serde_json::Value`, naming every duplicate key, with messages as Kubernetes clients know them.
//!
//! Written by hand rather than on serde_json's reader because three things are wanted at once: the paths of duplicate keys,
//! the byte offset of a mistake, and our own nesting limit. What it accepts is RFC 8259; where Go is laxer we refuse:
//! invalid UTF-8 and unpaired surrogate escapes would be silently altered, numbers out of range silently rounded.

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, Serializer};
use serde_json::{Map, Number, Value};
use std::io;

/// Writes a value as Kubernetes does: a number without a fraction has none, however it was written, for a client that reads an integer would not
/// take `2.0`.
pub fn write(out: &mut Vec<u8>, value: &Value) {
    // Writing JSON into a Vec cannot fail: keys are strings and numbers are finite.
    let _ = value.serialize(&mut Serializer::with_formatter(out, Plain));
}

/// Compact, and with plain numbers.
struct Plain;

impl Formatter for Plain {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        // From here on Go writes an exponent.
        const LARGE: f64 = 1e21;
        if value.fract() == 0.0 && value.abs() < LARGE {
            return write!(writer, "{value:.0}");
        }
        CompactFormatter.write_f64(writer, value)
    }
}

/// How deep objects and arrays may nest. Everything later done with a value (clone, compare, patch, render, drop) recurses
/// once per level, on stacks of 2 MiB; 256 levels need less than a quarter of that even in a debug build (tested below).
/// Kubernetes allows 10,000 because Go's stacks grow; real objects stay under 100.
pub const MAX_DEPTH: usize = 256;

/// Kubernetes reports no more strict errors than this for one body.
const MAX_DUPLICATES: usize = 100;

#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    pub value: Value,
    /// Paths of keys that stand more than once in one object, as Kubernetes prints them inside `duplicate field "…"`:
    /// `metadata.labels.a`, `spec.containers[0].image`. In the value, the last one won.
    pub duplicates: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    pub message: String,
    /// Where in the input, in bytes.
    pub offset: usize,
}

/// Reads exactly one JSON value.
pub fn parse(bytes: &[u8]) -> Result<Parsed, Error> {
    if bytes.starts_with(b"\xef\xbb\xbf") {
        return Err(Error { message: "JSON must not begin with a byte order mark".into(), offset: 0 });
    }
    let text = std::str::from_utf8(bytes).map_err(|e| Error {
        message: format!("invalid UTF-8 in JSON at byte {}", e.valid_up_to()),
        offset: e.valid_up_to(),
    })?;
    let mut reader = Reader { text, bytes, at: 0, depth: 0, duplicates: Vec::new() };
    let value = reader.value(None)?;
    reader.skip_space();
    if reader.at < bytes.len() {
        return Err(reader.unexpected("after top-level value"));
    }
    Ok(Parsed { value, duplicates: reader.duplicates })
}

/// Where the reader is, as a list through the stack frames: costs nothing until a duplicate asks for it.
struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

impl Path<'_> {
    fn render(&self, out: &mut String) {
        if let Some(parent) = self.parent {
            parent.render(out);
        }
        match self.step {
            Step::Key(key) => {
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(key);
            }
            Step::Index(index) => {
                out.push('[');
                out.push_str(&index.to_string());
                out.push(']');
            }
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    /// `text` as bytes.
    bytes: &'a [u8],
    at: usize,
    depth: usize,
    duplicates: Vec<String>,
}

impl Reader<'_> {
    fn value(&mut self, path: Option<&Path<'_>>) -> Result<Value, Error> {
        self.skip_space();
        match self.peek() {
            Some(b'"') => Ok(Value::String(self.string()?)),
            Some(b'{') => self.object(path),
            Some(b'[') => self.array(path),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.literal("true", Value::Bool(true)),
            Some(b'f') => self.literal("false", Value::Bool(false)),
            Some(b'n') => self.literal("null", Value::Null),
            _ => Err(self.unexpected("looking for beginning of value")),
        }
    }

    fn object(&mut self, path: Option<&Path<'_>>) -> Result<Value, Error> {
        self.enter()?;
        let mut map = Map::new();
        self.skip_space();
        if self.peek() == Some(b'}') {
            self.leave();
            return Ok(Value::Object(map));
        }
        loop {
            self.skip_space();
            if self.peek() != Some(b'"') {
                return Err(self.unexpected("looking for beginning of object key string"));
            }
            let key = self.string()?;
            self.skip_space();
            if self.peek() != Some(b':') {
                return Err(self.unexpected("after object key"));
            }
            self.at += 1;
            let here = Path { parent: path, step: Step::Key(&key) };
            let value = self.value(Some(&here))?;
            if map.contains_key(&key) {
                self.duplicate(&here);
            }
            map.insert(key, value);
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.leave();
                    return Ok(Value::Object(map));
                }
                _ => return Err(self.unexpected("after object key:value pair")),
            }
        }
    }

    fn array(&mut self, path: Option<&Path<'_>>) -> Result<Value, Error> {
        self.enter()?;
        let mut items = Vec::new();
        self.skip_space();
        if self.peek() == Some(b']') {
            self.leave();
            return Ok(Value::Array(items));
        }
        loop {
            let here = Path { parent: path, step: Step::Index(items.len()) };
            items.push(self.value(Some(&here))?);
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.leave();
                    return Ok(Value::Array(items));
                }
                _ => return Err(self.unexpected("after array element")),
            }
        }
    }

    fn enter(&mut self) -> Result<(), Error> {
        if self.depth == MAX_DEPTH {
            return Err(self.error(format!("exceeded max depth: JSON may nest at most {MAX_DEPTH} levels")));
        }
        self.depth += 1;
        self.at += 1;
        Ok(())
    }

    fn leave(&mut self) {
        self.depth -= 1;
        self.at += 1;
    }

    fn duplicate(&mut self, path: &Path<'_>) {
        if self.duplicates.len() < MAX_DUPLICATES {
            let mut text = String::new();
            path.render(&mut text);
            if !self.duplicates.contains(&text) {
                self.duplicates.push(text);
            }
        }
    }

    /// Called on the opening quote.
    fn string(&mut self) -> Result<String, Error> {
        self.at += 1;
        let start = self.at;
        self.run();
        if self.peek() == Some(b'"') {
            let plain = self.text[start..self.at].to_owned();
            self.at += 1;
            return Ok(plain);
        }
        let mut out = self.text[start..self.at].to_owned();
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => {
                    self.at += 1;
                    out.push(self.escape()?);
                }
                _ => return Err(self.unexpected("in string literal")),
            }
            let start = self.at;
            self.run();
            out.push_str(&self.text[start..self.at]);
        }
    }

    /// Skips string bytes that stand for themselves.
    fn run(&mut self) {
        let rest = &self.bytes[self.at..];
        self.at += rest.iter().position(|&b| b == b'"' || b == b'\\' || b < 0x20).unwrap_or(rest.len());
    }

    /// Called after the backslash.
    fn escape(&mut self) -> Result<char, Error> {
        let escaped = match self.peek() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let start = self.at - 1;
                self.at += 1;
                return self.unicode(start);
            }
            _ => return Err(self.unexpected("in string escape code")),
        };
        self.at += 1;
        Ok(escaped)
    }

    fn unicode(&mut self, start: usize) -> Result<char, Error> {
        let first = self.hex4()?;
        let code = match first {
            0xd800..=0xdbff if self.bytes[self.at..].starts_with(b"\\u") => {
                self.at += 2;
                let second = self.hex4()?;
                if (0xdc00..=0xdfff).contains(&second) {
                    0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)
                } else {
                    first
                }
            }
            other => other,
        };
        char::from_u32(code).ok_or_else(|| Error {
            message: format!("unpaired surrogate \\u{first:04x} in string literal"),
            offset: start,
        })
    }

    fn hex4(&mut self) -> Result<u32, Error> {
        let mut code = 0;
        for _ in 0..4 {
            let Some(digit) = self.peek().and_then(|b| char::from(b).to_digit(16)) else {
                return Err(self.unexpected("in \\u hexadecimal character escape"));
            };
            code = code * 16 + digit;
            self.at += 1;
        }
        Ok(code)
    }

    fn number(&mut self) -> Result<Value, Error> {
        let start = self.at;
        let negative = self.peek() == Some(b'-');
        if negative {
            self.at += 1;
        }
        // A leading zero stands alone.
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits("in numeric literal")?;
        }
        let mut integer = true;
        if self.peek() == Some(b'.') {
            integer = false;
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            integer = false;
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        let text = &self.text[start..self.at];
        let number = match (integer, negative) {
            (true, false) => text.parse::<u64>().ok().map(Number::from),
            (true, true) => text.parse::<i64>().ok().map(Number::from),
            (false, _) => text.parse::<f64>().ok().and_then(Number::from_f64),
        };
        match number {
            Some(number) => Ok(Value::Number(number)),
            None => {
                let mut shown: String = text.chars().take(40).collect();
                if shown.len() < text.len() {
                    shown.push('…');
                }
                Err(Error { message: format!("number {shown} is out of range"), offset: start })
            }
        }
    }

    fn digits(&mut self, context: &str) -> Result<(), Error> {
        let rest = &self.bytes[self.at..];
        let count = rest.iter().position(|b| !b.is_ascii_digit()).unwrap_or(rest.len());
        if count == 0 {
            return Err(self.unexpected(context));
        }
        self.at += count;
        Ok(())
    }

    fn literal(&mut self, word: &str, value: Value) -> Result<Value, Error> {
        for expected in word.bytes() {
            if self.peek() != Some(expected) {
                return Err(self.unexpected(&format!("in literal {word} (expecting '{}')", char::from(expected))));
            }
            self.at += 1;
        }
        Ok(value)
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// The mistake at the current byte, in Go's words.
    #[cold]
    fn unexpected(&self, context: &str) -> Error {
        match self.text.get(self.at..).and_then(|rest| rest.chars().next()) {
            Some(c) => self.error(format!("invalid character {} {context}", quoted(c))),
            None => self.error("unexpected end of JSON input".into()),
        }
    }

    #[cold]
    fn error(&self, message: String) -> Error {
        Error { message, offset: self.at }
    }
}

fn quoted(c: char) -> String {
    match c {
        '\'' => r"'\''".into(),
        '\n' => r"'\n'".into(),
        '\r' => r"'\r'".into(),
        '\t' => r"'\t'".into(),
        '\\' => r"'\\'".into(),
        c if c.is_ascii_control() => format!("'\\x{:02x}'", u32::from(c)),
        c => format!("'{c}'"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn message(text: &str) -> String {
        parse(text.as_bytes()).unwrap_err().message
    }

    #[test]
    fn numbers_are_written_as_go_does() {
        let value =
            parse(br#"[2.0, -0.0, 1e3, 0.5, 1e20, 1e21, 1e300, 7, 18446744073709551615, {"a": -3.0}]"#).unwrap().value;
        let mut out = Vec::new();
        write(&mut out, &value);
        let written = r#"[2,-0,1000,0.5,100000000000000000000,1e+21,1e+300,7,18446744073709551615,{"a":-3}]"#;
        assert_eq!(String::from_utf8(out).unwrap(), written);
    }

    #[test]
    fn values_are_read_as_written() {
        let parsed = parse(
            br#" { "a" : [1, -2, 18446744073709551615, 1.0, 1e3, true, null], "b":{"":"x\u00e9\ud83d\ude00\/\n"} } "#,
        );
        let parsed = parsed.unwrap();
        assert_eq!(
            parsed.value,
            json!({"a": [1, -2, 18446744073709551615u64, 1.0, 1000.0, true, null], "b": {"": "xé😀/\n"}})
        );
        assert!(parsed.value["a"][3].is_f64() && parsed.value["a"][0].is_i64());
        assert!(parsed.duplicates.is_empty());
        assert_eq!(parse(b"-0").unwrap().value, json!(0));
    }

    #[test]
    fn mistakes_are_told_in_gos_words() {
        for (text, expected) in [
            ("", "unexpected end of JSON input"),
            ("{", "unexpected end of JSON input"),
            ("[1", "unexpected end of JSON input"),
            (r#"{"a""#, "unexpected end of JSON input"),
            (r#""a"#, "unexpected end of JSON input"),
            ("-", "unexpected end of JSON input"),
            ("x", "invalid character 'x' looking for beginning of value"),
            ("[1,]", "invalid character ']' looking for beginning of value"),
            ("NaN", "invalid character 'N' looking for beginning of value"),
            ("nan", "invalid character 'a' in literal null (expecting 'u')"),
            ("Infinity", "invalid character 'I' looking for beginning of value"),
            ("-Infinity", "invalid character 'I' in numeric literal"),
            ("{a:1}", "invalid character 'a' looking for beginning of object key string"),
            (r#"{"a":1,}"#, "invalid character '}' looking for beginning of object key string"),
            (r#"{"a" 1}"#, "invalid character '1' after object key"),
            (r#"{"a":1 "b"}"#, "invalid character '\"' after object key:value pair"),
            ("[1 2]", "invalid character '2' after array element"),
            ("{} {}", "invalid character '{' after top-level value"),
            ("01", "invalid character '1' after top-level value"),
            ("1.", "unexpected end of JSON input"),
            ("1.x", "invalid character 'x' after decimal point in numeric literal"),
            ("1ex", "invalid character 'x' in exponent of numeric literal"),
            ("+1", "invalid character '+' looking for beginning of value"),
            ("tru]", "invalid character ']' in literal true (expecting 'e')"),
            ("\"a\nb\"", r"invalid character '\n' in string literal"),
            ("\"a\u{0}b\"", r"invalid character '\x00' in string literal"),
            (r#""\x""#, "invalid character 'x' in string escape code"),
            (r#""\u12g4""#, r"invalid character 'g' in \u hexadecimal character escape"),
            ("'a'", r"invalid character '\'' looking for beginning of value"),
        ] {
            assert_eq!(message(text), expected, "{text}");
        }
        assert_eq!(parse(br#"{"a": x}"#).unwrap_err().offset, 6);
    }

    // B-2
    #[test]
    fn b2_broken_text_and_numbers_are_refused() {
        assert_eq!(message("\u{feff}{}"), "JSON must not begin with a byte order mark");
        assert!(parse(b"\"\xff\"").unwrap_err().message.starts_with("invalid UTF-8 in JSON at byte 1"));
        assert!(parse(b"\xff\xfe{\0}\0").is_err());
        assert!(parse(b"{\0}\0").is_err());
        assert_eq!(message(r#""\ud800x""#), r"unpaired surrogate \ud800 in string literal");
        assert!(parse(br#""\udc00""#).is_err() && parse(br#""\ud800\u0041""#).is_err());
        assert_eq!(message("18446744073709551616"), "number 18446744073709551616 is out of range");
        assert_eq!(message("-9223372036854775809"), "number -9223372036854775809 is out of range");
        assert_eq!(message("[1e400]"), "number 1e400 is out of range");
        assert!(message(&"9".repeat(1_000_000)).len() < 100);
    }

    #[test]
    fn duplicates_are_named_and_the_last_wins() {
        let parsed = parse(br#"{"a":1,"c":{"x":1,"x":2,"x":3},"a":{"b":[{"f":1},{"f":1,"f":2}]}}"#).unwrap();
        assert_eq!(parsed.value, json!({"a": {"b": [{"f": 1}, {"f": 2}]}, "c": {"x": 3}}));
        assert_eq!(parsed.duplicates, ["c.x", "a.b[1].f", "a"]);
        assert_eq!(parse(br#"[{"a":1,"a":2}]"#).unwrap().duplicates, ["[0].a"]);
    }

    #[test]
    fn b2_a_flood_of_duplicates_stays_small() {
        let body = format!("{{{}\"z\":1}}", (0..5000).map(|i| format!("\"k{i}\":1,\"k{i}\":2,")).collect::<String>());
        assert_eq!(parse(body.as_bytes()).unwrap().duplicates.len(), MAX_DUPLICATES);
    }

    /// The deepest accepted value goes through everything that recurses, on a quarter of a worker's stack.
    #[test]
    fn b2_the_deepest_value_fits_the_stack_and_deeper_is_refused() {
        let work = || {
            for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("[{\"a\":", "}]")] {
                let levels = MAX_DEPTH / open.chars().filter(|c| "[{".contains(*c)).count();
                let nest = |n: usize| format!("{}1{}", open.repeat(n), close.repeat(n));
                let value = parse(nest(levels).as_bytes()).unwrap().value;
                assert_eq!(value.clone(), value);
                assert_eq!(value.to_string(), nest(levels));
                for too_deep in [levels + 1, 10_000, 500_000] {
                    assert!(message(&nest(too_deep)).starts_with("exceeded max depth"));
                    assert!(message(&open.repeat(too_deep)).starts_with("exceeded max depth"));
                }
            }
        };
        std::thread::Builder::new().stack_size(512 * 1024).spawn(work).unwrap().join().unwrap();
    }

    #[test]
    fn b2_a_megabyte_key_is_only_a_key() {
        let key = "k".repeat(1 << 20);
        let parsed = parse(format!("{{\"{key}\":1}}").as_bytes()).unwrap();
        assert_eq!(parsed.value.as_object().unwrap().len(), 1);
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            // Fractions with a short exact spelling: serde_json's own reader may be off in the last digit of others.
            any::<i32>().prop_map(|quarters| Value::from(f64::from(quarters) / 4.0)),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 64, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    /// Equal but for the last digit of floats, which serde_json rounds approximately and we exactly.
    fn same(a: &Value, b: &Value) -> bool {
        match (a, b) {
            (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
            (Value::Object(a), Value::Object(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|((k, a), (l, b))| k == l && same(a, b))
            }
            (Value::Number(a), Value::Number(b)) if a.is_f64() && b.is_f64() => {
                let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
                a == b || ((a - b) / b).abs() < 1e-14
            }
            _ => a == b,
        }
    }

    proptest! {
        #[test]
        fn what_is_rendered_is_read_back(value in any_json()) {
            for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
                let parsed = parse(text.as_bytes()).unwrap();
                prop_assert_eq!(&parsed.value, &value);
                prop_assert!(parsed.duplicates.is_empty());
            }
        }

        #[test]
        fn agrees_with_serde_json_on_mutated_text(value in any_json(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let mut bytes = value.to_string().into_bytes();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let (ours, theirs) = (parse(&bytes), serde_json::from_slice::<Value>(&bytes));
            match (ours, theirs) {
                (Ok(ours), Ok(theirs)) => {
                    // "-0" is an integer here, as in Go, and a float there.
                    let minus_zero = bytes.windows(2).any(|pair| pair == b"-0");
                    prop_assert!(minus_zero || same(&ours.value, &theirs), "{} {}", ours.value, theirs);
                }
                (Err(_), Err(_)) => {}
                (Err(ours), Ok(_)) => prop_assert!(ours.message.contains("out of range"), "{}", ours.message),
                (Ok(ours), Err(theirs)) => prop_assert!(false, "accepted {:?}, serde_json said {}", ours, theirs),
            }
        }

        #[test]
        fn floats_are_read_back_exactly(float in any::<f64>()) {
            let value = Value::from(float);
            prop_assert_eq!(parse(value.to_string().as_bytes()).unwrap().value, value);
        }

        #[test]
        fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Err(error) = parse(&bytes) { prop_assert!(error.offset <= bytes.len()); }
        }
    }
}
