//! Memory that Brotli's encoder uses again for the next block. Otherwise the system clears a megabyte of new pages for
//! every block, which takes a third of the time of compression.

use std::any::Any;

use brotli::enc::BrotliAlloc;
use brotli::{Allocator, HeapAlloc};

/// Smaller pieces are left to the system's allocator, which reuses them itself.
const MIN_REUSED: usize = 16 << 10;

/// The pieces that no encoder uses now: 1 to 2 MiB after a block.
#[derive(Default)]
pub(super) struct EncoderMemory {
    free: Vec<Piece>,
    /// Pieces that the encoder of this block has returned.
    returned: Vec<Piece>,
}

/// A `Box<[T]>`.
type Piece = Box<dyn Any + Send>;

impl EncoderMemory {
    /// Ends a block. Pieces that it did not use are released: lengths differ between blocks, so they would add up.
    pub(super) fn end_block(&mut self) {
        self.free = std::mem::take(&mut self.returned);
    }
}

impl BrotliAlloc for EncoderMemory {}

impl<T: Clone + Default + Send + 'static> Allocator<T> for EncoderMemory {
    type AllocatedMemory = <HeapAlloc<T> as Allocator<T>>::AllocatedMemory;

    fn alloc_cell(&mut self, len: usize) -> Self::AllocatedMemory {
        let has_len =
            |piece: &Piece| piece.downcast_ref::<Box<[T]>>().is_some_and(|piece| piece.len() == len);
        let take = |list: &mut Vec<Piece>| list.iter().position(has_len).map(|at| list.swap_remove(at));
        let reused = take(&mut self.returned).or_else(|| take(&mut self.free));
        match reused.map(|piece| piece.downcast::<Box<[T]>>()) {
            Some(Ok(mut piece)) => {
                piece.fill(T::default());
                Vec::from(*piece).into()
            }
            _ => vec![T::default(); len].into(),
        }
    }

    fn free_cell(&mut self, piece: Self::AllocatedMemory) {
        let piece: Box<[T]> = piece.into();
        if size_of_val(&*piece) >= MIN_REUSED {
            self.returned.push(Box::new(piece));
        }
    }
}

impl std::fmt::Debug for EncoderMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "EncoderMemory({} pieces)", self.free.len())
    }
}
