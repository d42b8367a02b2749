//! pprof's `profile.proto`, as much of it as we write: strings, functions and addresses once, samples by number.

use std::{
    collections::HashMap,
    io::{self, Write},
    time::{Duration, SystemTime},
};

use flate2::{Compression, write::GzEncoder};
use prost::Message;

/// A function in a stack, with where it is written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Frame {
    pub function: String,
    pub file: String,
    pub line: i64,
}

#[derive(Debug)]
pub struct Builder {
    profile: Profile,
    strings: HashMap<String, i64>,
    functions: HashMap<(i64, i64), u64>,
    locations: HashMap<(u64, Vec<Frame>), u64>,
}

impl Builder {
    /// `values` are what each sample counts, with units; `period` is how much of `unit` lies between two samples.
    pub fn new(values: &[(&str, &str)], unit: (&str, &str), period: i64) -> Builder {
        let mut builder = Builder {
            profile: Profile { period, ..Profile::default() },
            strings: HashMap::new(),
            functions: HashMap::new(),
            locations: HashMap::new(),
        };
        // The first string must be empty.
        builder.string("");
        builder.profile.sample_type = values.iter().map(|(kind, unit)| builder.value_type(kind, unit)).collect();
        builder.profile.period_type = Some(builder.value_type(unit.0, unit.1));
        builder
    }

    /// One stack, innermost first: addresses, and the functions at each of them, the inlined ones first.
    pub fn sample(&mut self, stack: impl IntoIterator<Item = (u64, Vec<Frame>)>, values: &[i64]) {
        let location_id = stack.into_iter().map(|(address, frames)| self.location(address, frames)).collect();
        self.profile.sample.push(Sample { location_id, value: values.to_vec() });
    }

    /// The whole, gzipped.
    pub fn finish(mut self, started: SystemTime, lasted: Duration) -> io::Result<Vec<u8>> {
        let nanos = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        self.profile.time_nanos = nanos(started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default());
        self.profile.duration_nanos = nanos(lasted);
        let mut out = GzEncoder::new(Vec::new(), Compression::fast());
        out.write_all(&self.profile.encode_to_vec())?;
        out.finish()
    }

    fn value_type(&mut self, kind: &str, unit: &str) -> ValueType {
        ValueType { kind: self.string(kind), unit: self.string(unit) }
    }

    fn string(&mut self, text: &str) -> i64 {
        if let Some(known) = self.strings.get(text) {
            return *known;
        }
        let number = i64::try_from(self.profile.string_table.len()).unwrap_or(0);
        self.profile.string_table.push(text.to_owned());
        self.strings.insert(text.to_owned(), number);
        number
    }

    fn location(&mut self, address: u64, frames: Vec<Frame>) -> u64 {
        let key = (address, frames);
        if let Some(known) = self.locations.get(&key) {
            return *known;
        }
        let line = key.1.iter().map(|frame| Line { function_id: self.function(frame), line: frame.line }).collect();
        let id = self.profile.location.len() as u64 + 1;
        self.profile.location.push(Location { id, address, line });
        self.locations.insert(key, id);
        id
    }

    fn function(&mut self, frame: &Frame) -> u64 {
        let (name, filename) = (self.string(&frame.function), self.string(&frame.file));
        let next = self.functions.len() as u64 + 1;
        let id = *self.functions.entry((name, filename)).or_insert(next);
        if id == next {
            self.profile.function.push(Function { id, name, system_name: name, filename });
        }
        id
    }
}

#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
}

#[derive(Clone, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "3")]
    address: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
    #[prost(int64, tag = "2")]
    line: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
}
