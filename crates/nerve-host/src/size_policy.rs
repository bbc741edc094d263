//! Determines the size of a terminal from the windows of its viewers. No I/O.

use nerve_types::Size;

use crate::protocol::Window;

/// The windows of all viewers, in the order in which they chose their mode.
#[derive(Debug, Default)]
pub(super) struct SizePolicy(Vec<(u64, Window)>);

impl SizePolicy {
    /// Sets a viewer's window. A mere change of size keeps its position in the order.
    pub(super) fn set(&mut self, client: u64, window: Window) {
        let same = |old: &Window| std::mem::discriminant(old) == std::mem::discriminant(&window);
        match self.0.iter_mut().find(|(id, old)| *id == client && same(old)) {
            Some((_, old)) => *old = window,
            None => {
                self.remove(client);
                self.0.push((client, window));
            }
        }
    }

    /// Removes a viewer.
    pub(super) fn remove(&mut self, client: u64) {
        self.0.retain(|(id, _)| *id != client);
    }

    /// Returns the resulting size; `None` if no viewer wants one.
    pub(super) fn size(&self) -> Option<Size> {
        let sole = self.0.iter().rev().find_map(|(_, window)| match window {
            Window::Sets(size) => Some(*size),
            Window::Keep | Window::Shares(_) => None,
        });
        let shared = self.0.iter().filter_map(|(_, window)| match window {
            Window::Shares(size) => Some(*size),
            Window::Keep | Window::Sets(_) => None,
        });
        let smallest = |a: Size, b: Size| Size::new(a.cols.min(b.cols), a.rows.min(b.rows));
        let size = sole.or_else(|| shared.reduce(smallest))?;
        Some(Size::new(size.cols, size.rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(cols: u16, rows: u16) -> Size {
        Size::new(cols, rows)
    }

    #[test]
    fn shared_size_is_the_minimum_of_all_windows() {
        let mut size_policy = SizePolicy::default();
        assert_eq!(size_policy.size(), None);
        size_policy.set(1, Window::Shares(size(100, 20)));
        size_policy.set(2, Window::Shares(size(80, 40)));
        assert_eq!(size_policy.size(), Some(size(80, 20)));
        size_policy.set(3, Window::Keep);
        assert_eq!(size_policy.size(), Some(size(80, 20)), "one that only looks takes no part");
        size_policy.remove(2);
        assert_eq!(size_policy.size(), Some(size(100, 20)));
        size_policy.remove(1);
        assert_eq!(size_policy.size(), None, "what it was stays");
    }

    #[test]
    fn latest_exclusive_window_wins() {
        let mut size_policy = SizePolicy::default();
        size_policy.set(1, Window::Shares(size(10, 10)));
        size_policy.set(2, Window::Sets(size(100, 50)));
        size_policy.set(3, Window::Sets(size(60, 20)));
        size_policy.set(2, Window::Sets(size(101, 50)));
        assert_eq!(
            size_policy.size(),
            Some(size(60, 20)),
            "a window that is dragged larger has not chosen again"
        );
        size_policy.remove(3);
        assert_eq!(size_policy.size(), Some(size(101, 50)));
        size_policy.set(2, Window::Keep);
        assert_eq!(size_policy.size(), Some(size(10, 10)));
    }

    #[test]
    fn size_is_clamped() {
        let mut size_policy = SizePolicy::default();
        size_policy.set(1, Window::Shares(size(0, 0)));
        assert_eq!(size_policy.size(), Some(Size::MIN));
        size_policy.set(1, Window::Sets(size(u16::MAX, u16::MAX)));
        assert_eq!(size_policy.size(), Some(Size::MAX));
    }
}
