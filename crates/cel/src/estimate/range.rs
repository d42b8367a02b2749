//! From the least to the most: sizes and costs before anything is known.

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Range {
    pub min: u64,
    pub max: u64,
}

impl Range {
    pub const NOTHING: Range = Range::exactly(0);
    pub const ONE: Range = Range::exactly(1);
    pub const UNKNOWN: Range = Range { min: 0, max: u64::MAX };
    /// What joins with anything to that.
    pub const EMPTY: Range = Range { min: u64::MAX, max: 0 };

    pub const fn exactly(value: u64) -> Range {
        Range { min: value, max: value }
    }

    pub const fn up_to(max: u64) -> Range {
        Range { min: 0, max }
    }

    pub fn plus(self, other: Range) -> Range {
        Range { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    pub fn times(self, other: Range) -> Range {
        Range { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    /// Rounded up, in floating point as the reference does it.
    pub fn scaled(self, factor: f64) -> Range {
        let scale = |value: u64| (value as f64 * factor).ceil() as u64;
        Range { min: scale(self.min), max: scale(self.max) }
    }

    pub fn tenths(self) -> Range {
        self.scaled(0.1)
    }

    pub fn union(self, other: Range) -> Range {
        Range { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}
