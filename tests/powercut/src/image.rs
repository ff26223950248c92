//! Image: the bytes of a disk, in pages that copies of it share.

use std::sync::Arc;

/// The unit in which copies share bytes.
const PAGE: usize = 4096;

/// What a drive writes whole or not at all, in bytes.
pub const SECTOR: usize = 512;

type Page = [u8; PAGE];

/// A disk's bytes. What was never written is zero and takes no memory; a clone takes memory for what changes only.
#[derive(Clone, Debug)]
pub struct Image {
    pages: Vec<Option<Arc<Page>>>,
}

impl Image {
    /// An empty disk of so many bytes, rounded down to pages.
    pub fn new(bytes: u64) -> Image {
        Image { pages: vec![None; (bytes / PAGE as u64) as usize] }
    }

    /// Its size in bytes.
    pub fn len(&self) -> u64 {
        (self.pages.len() * PAGE) as u64
    }

    /// Bytes from `offset` on, cut at the end of the disk.
    pub fn read(&self, offset: u64, length: usize) -> Vec<u8> {
        let end = self.len().min(offset.saturating_add(length as u64));
        let mut bytes = Vec::with_capacity(length);
        let mut at = offset;
        while at < end {
            let (page, within) = ((at / PAGE as u64) as usize, (at % PAGE as u64) as usize);
            let take = (PAGE - within).min((end - at) as usize);
            match &self.pages[page] {
                Some(page) => bytes.extend_from_slice(&page[within..within + take]),
                None => bytes.resize(bytes.len() + take, 0),
            }
            at += take as u64;
        }
        bytes
    }

    /// Writes, and says how much: what does not fit is left out.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> usize {
        let end = self.len().min(offset.saturating_add(bytes.len() as u64));
        let mut at = offset;
        while at < end {
            let (page, within) = ((at / PAGE as u64) as usize, (at % PAGE as u64) as usize);
            let take = (PAGE - within).min((end - at) as usize);
            let from = (at - offset) as usize;
            let page = self.pages[page].get_or_insert_with(|| Arc::new([0; PAGE]));
            Arc::make_mut(page)[within..within + take].copy_from_slice(&bytes[from..from + take]);
            at += take as u64;
        }
        end.saturating_sub(offset) as usize
    }

    /// Its pages that hold anything, with where they stand.
    pub fn pages(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let held = self.pages.iter().enumerate();
        held.filter_map(|(number, page)| Some(((number * PAGE) as u64, &page.as_ref()?[..])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_copies_do_not_see_it() {
        let mut image = Image::new(4 * PAGE as u64);
        assert_eq!(image.write(PAGE as u64 - 3, b"abcdef"), 6);
        let copy = image.clone();
        image.write(PAGE as u64, b"xyz");
        assert_eq!(image.read(PAGE as u64 - 4, 8), b"\0abcxyz\0");
        assert_eq!(copy.read(PAGE as u64 - 4, 8), b"\0abcdef\0");
        assert_eq!(copy.pages().count(), 2);
    }

    #[test]
    fn nothing_stands_past_the_end() {
        let mut image = Image::new(PAGE as u64);
        assert_eq!(image.write(PAGE as u64 - 2, b"abc"), 2);
        assert_eq!(image.read(PAGE as u64 - 2, 10), b"ab");
        assert_eq!((image.write(PAGE as u64 + 5, b"a"), image.read(PAGE as u64 + 5, 1).len()), (0, 0));
    }
}
