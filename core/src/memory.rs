//! How full memory is.

/// How near memory is to the nearest limit: the server's maxmemory or
/// `disque.max-memory`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Pressure {
    /// Below [`HIGH_PERCENT`] %, or there is no limit.
    #[default]
    None,
    /// Above [`HIGH_PERCENT`] %: where there are other nodes, they keep new jobs.
    High,
    /// Above [`CRITICAL_PERCENT`] %: what may be forgotten is dropped.
    Critical,
    /// The limit is reached: no new job is kept.
    Full,
}

/// Where [`Pressure::High`] begins, in percent of the limit.
pub const HIGH_PERCENT: u64 = 75;
/// Where [`Pressure::Critical`] begins, in percent of the limit.
pub const CRITICAL_PERCENT: u64 = 95;

impl Pressure {
    /// The pressure of `used` bytes under a limit; a limit of 0 is none.
    pub fn of(used: u64, limit: u64) -> Pressure {
        if limit == 0 {
            return Pressure::None;
        }
        let percent = |p| u128::from(used) * 100 > u128::from(limit) * p;
        if used >= limit {
            Pressure::Full
        } else if percent(u128::from(CRITICAL_PERCENT)) {
            Pressure::Critical
        } else if percent(u128::from(HIGH_PERCENT)) {
            Pressure::High
        } else {
            Pressure::None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_lie_where_the_manual_says() {
        for (used, limit, pressure) in [
            (u64::MAX, 0, Pressure::None),
            (0, 1, Pressure::None),
            (1, 1, Pressure::Full),
            (75, 100, Pressure::None),
            (76, 100, Pressure::High),
            (95, 100, Pressure::High),
            (96, 100, Pressure::Critical),
            (99, 100, Pressure::Critical),
            (100, 100, Pressure::Full),
            (u64::MAX, u64::MAX, Pressure::Full),
        ] {
            assert_eq!(Pressure::of(used, limit), pressure, "{used} of {limit}");
        }
    }
}
