//! How much may be open at once (WebSockets, log streams), in all and for one caller.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::caller::CallerKey;
use crate::problem::Problem;

pub(crate) struct Seats {
    most: usize,
    most_each: usize,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    all: usize,
    by_caller: HashMap<CallerKey, usize>,
}

impl Seats {
    pub(crate) fn new(most: usize, most_each: usize) -> Arc<Self> {
        Arc::new(Self { most, most_each, taken: Mutex::default() })
    }

    /// A seat, to be held for as long as the thing is open.
    pub(crate) fn take(self: &Arc<Self>, caller: CallerKey) -> Result<Seat, Problem> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let own = taken.by_caller.get(&caller).copied().unwrap_or(0);
        if own >= self.most_each {
            let why = format!("you have {own} streams and terminals open; close some");
            return Err(Problem::too_many(why));
        }
        if taken.all >= self.most {
            return Err(Problem::too_many("too many streams and terminals are open on this server; try again later"));
        }
        taken.all += 1;
        *taken.by_caller.entry(caller).or_default() += 1;
        Ok(Seat { seats: self.clone(), caller })
    }
}

/// Given back when dropped.
pub(crate) struct Seat {
    seats: Arc<Seats>,
    caller: CallerKey,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.all -= 1;
        if let Some(count) = taken.by_caller.get_mut(&self.caller) {
            *count -= 1;
            if *count == 0 {
                taken.by_caller.remove(&self.caller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn seats_are_bounded_for_each_and_for_all_and_given_back() {
        let seats = Seats::new(3, 2);
        let held = [seats.take([1; 32]).unwrap(), seats.take([1; 32]).unwrap()];
        assert_eq!(seats.take([1; 32]).err().unwrap().code, 429);
        let other = seats.take([2; 32]).unwrap();
        assert_eq!(seats.take([3; 32]).err().unwrap().code, 429);
        drop((held, other));
        assert!(seats.take([1; 32]).is_ok());
        assert!(seats.taken.lock().unwrap().by_caller.is_empty());
    }
}
