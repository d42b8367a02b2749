//! Inputs: small random changes to known ones, from a seed that can be repeated.

/// SplitMix64: enough for choosing, and the same everywhere.
pub struct Random(pub u64);

impl Random {
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Less than `limit`, which must not be zero.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.draw() % limit as u64) as usize
    }
}

/// Pieces that carry meaning for some target.
const WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"",
    "\\",
    "null",
    "true",
    "1e400",
    "-0",
    "18446744073709551616",
    "\\ud800",
    "\\u0000",
    "\n",
    "\"a\":",
    "\"$patch\":\"delete\"",
    "\"$patch\":\"replace\"",
    "\"$retainKeys\":[\"a\"]",
    "\"$setElementOrder/containers\":[{\"name\":\"a\"}]",
    "\"$deleteFromPrimitiveList/finalizers\":[\"a\"]",
    "\"containers\":[{\"name\":\"a\"}]",
    "\"finalizers\":[\"a\",\"b\"]",
    "\"selector\":{}",
    "{\"op\":\"copy\",\"from\":\"/a\",\"path\":\"/b\"}",
    "{\"op\":\"move\",\"from\":\"/a\",\"path\":\"/b/a\"}",
    "{\"op\":\"add\",\"path\":\"/a/-\",\"value\":1}",
    "\"fieldsV1\":{\"f:a\":{\".\":{}}}",
    "\"k:{\\\"name\\\":\\\"a\\\"}\":{}",
    "\"v:\\\"a\\\"\":{}",
    "\"i:1\":{}",
    "/-1",
    "~0",
    "~1",
    "=",
    "==",
    "!=",
    "!",
    " in (",
    " notin (",
    ")",
    ">",
    "<",
    "\\,",
    "..",
    "%2f",
    "\0",
    "é",
    "\u{feff}",
    "metadata.name",
    "a",
    "-",
    ".",
    "_",
];

const LONGEST: usize = 64 * 1024;

/// A new input: one or two known ones, changed in a few places.
pub fn mutated(corpus: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut data = match corpus.len() {
        0 => Vec::new(),
        known => corpus[random.below(known)].clone(),
    };
    for _ in 0..=random.below(6) {
        let at = random.below(data.len() + 1);
        let end = at + random.below(data.len() - at + 1).min(64);
        match random.below(8) {
            0 if at < data.len() => data[at] ^= 1 << random.below(8),
            1 if at < data.len() => data[at] = random.draw() as u8,
            2 => drop(data.drain(at..end)),
            3 => drop(data.splice(at..at, WORDS[random.below(WORDS.len())].bytes())),
            4 => {
                // Repeats make depth and length.
                let piece = data[at..end].repeat(1 + random.below(16));
                data.splice(at..at, piece);
            }
            5 if !corpus.is_empty() => {
                let other = &corpus[random.below(corpus.len())];
                let cut = random.below(other.len() + 1);
                data.splice(at.., other[cut..].iter().copied());
            }
            6 => data.truncate(at),
            _ => data.insert(at, b" \n\"{}[],:0a"[random.below(11)]),
        }
    }
    data.truncate(LONGEST);
    data
}
