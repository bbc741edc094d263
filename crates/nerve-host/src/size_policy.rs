//! Determines the size of a terminal from the windows of its viewers. No I/O.

use nerve_types::Size;

use crate::protocol::Window;

/// The terminal's own size, and the windows of all viewers in the order in which they chose their mode.
#[derive(Debug)]
pub(super) struct SizePolicy {
    /// The size without viewers, unless the last viewer left a larger one.
    own: Size,
    windows: Vec<(u64, Window)>,
}

impl SizePolicy {
    /// Creates the policy of a terminal without viewers.
    pub(super) fn new(own: Size) -> SizePolicy {
        SizePolicy { own, windows: Vec::new() }
    }

    /// Sets the terminal's own size.
    pub(super) fn set_own(&mut self, own: Size) {
        self.own = own;
    }

    /// Sets a viewer's window. A mere change of size keeps its position in the order.
    pub(super) fn set(&mut self, client: u64, window: Window) {
        let has_same_mode = |old: &Window| std::mem::discriminant(old) == std::mem::discriminant(&window);
        match self.windows.iter_mut().find(|(id, old)| *id == client && has_same_mode(old)) {
            Some((_, old)) => *old = window,
            None => {
                self.remove(client);
                self.windows.push((client, window));
            }
        }
    }

    /// Removes a viewer.
    pub(super) fn remove(&mut self, client: u64) {
        self.windows.retain(|(id, _)| *id != client);
    }

    /// Returns the size for a terminal that has the size `current`: what the viewers determine, otherwise `current`. A
    /// terminal that viewers have made smaller gets its own size back.
    pub(super) fn size(&self, current: Size) -> Size {
        let is_smaller = current.cols < self.own.cols || current.rows < self.own.rows;
        self.viewers_size().unwrap_or(if is_smaller { self.own } else { current })
    }

    /// Returns the size that the viewers determine; `None` if no viewer wants one.
    pub(super) fn viewers_size(&self) -> Option<Size> {
        let sole = self.windows.iter().rev().find_map(|(_, window)| match window {
            Window::Sets(size) => Some(*size),
            Window::Keep | Window::Shares(_) => None,
        });
        let shared = self.windows.iter().filter_map(|(_, window)| match window {
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
        let mut size_policy = SizePolicy::new(size(90, 30));
        assert_eq!(size_policy.viewers_size(), None);
        size_policy.set(1, Window::Shares(size(100, 20)));
        size_policy.set(2, Window::Shares(size(80, 40)));
        assert_eq!(size_policy.viewers_size(), Some(size(80, 20)));
        size_policy.set(3, Window::Keep);
        assert_eq!(size_policy.viewers_size(), Some(size(80, 20)), "one that only looks takes no part");
        size_policy.remove(2);
        assert_eq!(size_policy.viewers_size(), Some(size(100, 20)));
        size_policy.remove(1);
        assert_eq!(size_policy.viewers_size(), None);
    }

    #[test]
    fn terminal_gets_its_own_size_back_unless_it_is_larger() {
        let mut size_policy = SizePolicy::new(size(90, 30));
        size_policy.set(1, Window::Shares(size(40, 50)));
        assert_eq!(size_policy.size(size(90, 30)), size(40, 50));
        size_policy.remove(1);
        assert_eq!(size_policy.size(size(40, 50)), size(90, 30), "too narrow");
        assert_eq!(size_policy.size(size(90, 50)), size(90, 50), "larger: nothing is drawn again");
        size_policy.set_own(size(20, 5));
        assert_eq!(size_policy.size(size(40, 50)), size(40, 50));
    }

    #[test]
    fn latest_exclusive_window_wins() {
        let mut size_policy = SizePolicy::new(size(90, 30));
        size_policy.set(1, Window::Shares(size(10, 10)));
        size_policy.set(2, Window::Sets(size(100, 50)));
        size_policy.set(3, Window::Sets(size(60, 20)));
        size_policy.set(2, Window::Sets(size(101, 50)));
        assert_eq!(
            size_policy.viewers_size(),
            Some(size(60, 20)),
            "a window that is dragged larger has not chosen again"
        );
        size_policy.remove(3);
        assert_eq!(size_policy.viewers_size(), Some(size(101, 50)));
        size_policy.set(2, Window::Keep);
        assert_eq!(size_policy.viewers_size(), Some(size(10, 10)));
    }

    #[test]
    fn size_is_clamped() {
        let mut size_policy = SizePolicy::new(size(90, 30));
        size_policy.set(1, Window::Shares(size(0, 0)));
        assert_eq!(size_policy.viewers_size(), Some(Size::MIN));
        size_policy.set(1, Window::Sets(size(u16::MAX, u16::MAX)));
        assert_eq!(size_policy.viewers_size(), Some(Size::MAX));
    }
}
