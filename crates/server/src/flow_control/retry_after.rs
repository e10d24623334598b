//! The `Retry-After` of rejected requests: it grows while a level keeps rejecting, as in kube-apiserver.
//!
//! It doubles when the level rejected at least three requests per second for that long, and decreases by a second
//! when it rejected less than one.

use std::collections::VecDeque;

/// The longest `Retry-After` in seconds.
const MAX_SECONDS: u64 = 32;

/// The recent rejections of a level.
#[derive(Debug)]
pub(super) struct RetryAfter {
    seconds: u64,
    raised_at: u64,
    /// Rejected requests by second, oldest first; the last entry is the current second.
    history: VecDeque<(u64, u64)>,
}

impl Default for RetryAfter {
    fn default() -> Self {
        Self {
            seconds: 1,
            raised_at: 0,
            history: VecDeque::new(),
        }
    }
}

impl RetryAfter {
    /// Counts a rejected request; returns its `Retry-After`. `now` is in seconds since an arbitrary start.
    pub(super) fn rejected(&mut self, now: u64) -> u64 {
        match self.history.back_mut() {
            Some((second, count)) if *second == now => *count += 1,
            _ => {
                self.adjust(now);
                self.history.push_back((now, 1));
            }
        }
        self.seconds
    }

    fn adjust(&mut self, now: u64) {
        while let Some((second, _)) = self.history.front()
            && now - second > MAX_SECONDS
        {
            self.history.pop_front();
        }
        let recent = self
            .history
            .iter()
            .filter(|(second, _)| now - second <= self.seconds);
        let rejected: u64 = recent.map(|(_, count)| count).sum();
        if rejected >= 3 * self.seconds && now - self.raised_at >= self.seconds {
            self.seconds = (2 * self.seconds).min(MAX_SECONDS);
            self.raised_at = now;
        } else if rejected < self.seconds && self.seconds > 1 {
            self.seconds -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_with_rejections_and_shrinks_again() {
        let mut retry_after = RetryAfter::default();
        let mut seconds =
            |now: u64, count: u64| (0..count).map(|_| retry_after.rejected(now)).last().unwrap();
        let seen = [
            (100, 5),
            (101, 11),
            (102, 30),
            (103, 30),
            (107, 90),
            (108, 1),
            (150, 1),
            (151, 1),
        ];
        let seen: Vec<_> = seen.map(|(now, count)| seconds(now, count)).into();
        assert_eq!(seen, [1, 2, 2, 4, 8, 8, 7, 6]);
    }

    #[test]
    fn it_has_a_limit() {
        let mut retry_after = RetryAfter::default();
        let seconds = (0..2_000).map(|step| retry_after.rejected(1 + step / 10)).max();
        assert_eq!(seconds, Some(MAX_SECONDS));
        assert!(retry_after.history.len() <= MAX_SECONDS as usize + 2);
    }
}
