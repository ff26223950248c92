//! Numbers: what stands behind the numbers that handles carry.

/// Things by number, from `first` on and below `end`. The lowest free number is the one freed last.
#[derive(Debug)]
pub(crate) struct Numbers<T> {
    first: u32,
    end: u32,
    held: Vec<Option<T>>,
    freed: Vec<u32>,
}

impl<T> Numbers<T> {
    pub(crate) fn new(first: u32, end: u32) -> Numbers<T> {
        Numbers { first, end, held: Vec::new(), freed: Vec::new() }
    }

    /// A free number, which [`Numbers::put`] takes.
    pub(crate) fn free(&self) -> Option<u32> {
        let next = self.first + self.held.len() as u32;
        self.freed.last().copied().or_else(|| (next < self.end).then_some(next))
    }

    pub(crate) fn put(&mut self, number: u32, thing: T) {
        let index = (number - self.first) as usize;
        if self.freed.last() == Some(&number) {
            self.freed.pop();
        } else {
            assert_eq!(index, self.held.len(), "a number comes from `free`");
            self.held.push(None);
        }
        self.held[index] = Some(thing);
    }

    /// Takes in a thing; gives its number.
    pub(crate) fn insert(&mut self, thing: T) -> u32 {
        let number = self.free().expect("descriptors end long before numbers do");
        self.put(number, thing);
        number
    }

    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        let index = number.checked_sub(self.first)? as usize;
        self.held.get(index)?.as_ref()
    }

    pub(crate) fn take(&mut self, number: u32) -> Option<T> {
        let index = number.checked_sub(self.first)? as usize;
        let thing = self.held.get_mut(index)?.take()?;
        self.freed.push(number);
        Some(thing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_used_again_only_after_it_was_freed() {
        let mut numbers = Numbers::new(1, 3);
        for expected in [1, 2] {
            assert_eq!(numbers.free(), Some(expected));
            numbers.put(expected, ());
        }
        assert_eq!(numbers.free(), None);
        assert!(numbers.take(1).is_some());
        assert!(numbers.take(1).is_none());
        assert!(numbers.get(1).is_none());
        assert_eq!(numbers.free(), Some(1));
        assert!(numbers.get(0).is_none());
        assert!(numbers.get(9).is_none());
    }
}
