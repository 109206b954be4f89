//! Whether a figure grows: a line through its samples.

/// Growth in an hour, in percent of the mean, above which a figure is not steady.
pub const LIMIT_PERCENT: f64 = 1.0;

/// What the line through the samples of a figure says.
#[derive(Clone, Copy, Debug)]
pub struct Trend {
    pub mean: f64,
    /// What is added in an hour.
    pub per_hour: f64,
    /// How far that may be off, given how the samples lie about the line: its
    /// standard error.
    pub error: f64,
}

impl Trend {
    /// The line with the least squares through (hours, figure). Needs three samples at
    /// different times.
    pub fn of(samples: &[(f64, f64)]) -> Trend {
        assert!(samples.len() > 2, "{} samples show no trend", samples.len());
        let count = samples.len() as f64;
        let middle = samples.iter().map(|(x, _)| x).sum::<f64>() / count;
        let mean = samples.iter().map(|(_, y)| y).sum::<f64>() / count;
        let width: f64 = samples.iter().map(|(x, _)| (x - middle).powi(2)).sum();
        let per_hour = samples
            .iter()
            .map(|(x, y)| (x - middle) * (y - mean))
            .sum::<f64>()
            / width;
        let off = |(x, y): &(f64, f64)| (y - mean - per_hour * (x - middle)).powi(2);
        let scatter = samples.iter().map(off).sum::<f64>() / (count - 2.0);
        Trend {
            mean,
            per_hour,
            error: (scatter / width).sqrt(),
        }
    }

    /// Growth in an hour in percent of the mean.
    pub fn percent(&self) -> f64 {
        self.in_percent(self.per_hour)
    }

    /// The standard error of [`Trend::percent`].
    pub fn percent_error(&self) -> f64 {
        self.in_percent(self.error)
    }

    fn in_percent(&self, figure: f64) -> f64 {
        match self.mean {
            0.0 => 0.0,
            mean => 100.0 * figure / mean,
        }
    }

    /// Whether the figure grows by more than it may. Less than one in an hour is no
    /// growth: what is nearly always 0 has a mean of which anything is many percent.
    pub fn grows(&self) -> bool {
        self.percent() > LIMIT_PERCENT && self.per_hour >= 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLES: usize = 180;

    /// An hour of samples, of a figure that depends on the time in hours and on the
    /// number of the sample.
    fn hour(figure: impl Fn(f64, usize) -> f64) -> Trend {
        let at = |n: usize| n as f64 / SAMPLES as f64;
        let samples: Vec<_> = (0..SAMPLES).map(|n| (at(n), figure(at(n), n))).collect();
        Trend::of(&samples)
    }

    /// Between -1 and 1, without a trend.
    fn noise(n: usize) -> f64 {
        f64::from((n as u32).wrapping_mul(2_654_435_761) >> 16) / 32_768.0 - 1.0
    }

    #[track_caller]
    fn assert_near(found: f64, wanted: f64) {
        assert!((found - wanted).abs() < 1e-6, "{found} is not {wanted}");
    }

    #[test]
    fn what_stays_the_same_does_not_grow() {
        let trend = hour(|_, _| 7_000_000.0);
        assert_near(trend.mean, 7_000_000.0);
        assert_near(trend.percent(), 0.0);
        assert_near(trend.percent_error(), 0.0);
        assert!(!trend.grows());
    }

    #[test]
    fn a_line_is_found_as_it_is() {
        let trend = hour(|hours, _| 1_000.0 + 50.0 * hours);
        assert_near(trend.per_hour, 50.0);
        assert_near(trend.percent(), 100.0 * 50.0 / trend.mean);
        assert_near(trend.error, 0.0);
    }

    #[test]
    fn the_limit_is_one_percent_of_the_mean_in_an_hour() {
        // The mean is that of the middle of the hour.
        let growing = |percent: f64| hour(|hours, _| 1e6 * (1.0 + percent / 100.0 * hours));
        assert!(!growing(0.9).grows());
        assert!(growing(1.1).grows());
    }

    #[test]
    fn the_time_that_a_run_takes_does_not_matter() {
        // One percent in ten minutes is six in an hour.
        let samples: Vec<_> = (0..30)
            .map(|n| (f64::from(n) / 180.0, 1e6 + 1e4 * f64::from(n) / 30.0))
            .collect();
        let trend = Trend::of(&samples);
        assert!((trend.percent() - 6.0).abs() < 0.1, "{trend:?}");
        assert!(trend.grows());
    }

    #[test]
    fn a_leak_is_found_under_noise_and_noise_is_no_leak() {
        let noisy = |leak: f64| hour(|hours, n| 1e6 + leak * hours + 5_000.0 * noise(n));
        assert!(!noisy(0.0).grows(), "{:?}", noisy(0.0));
        assert!(noisy(20_000.0).grows(), "{:?}", noisy(20_000.0));
        let trend = noisy(0.0);
        assert!(trend.percent().abs() < 2.5 * trend.percent_error());
    }

    #[test]
    fn a_leak_in_steps_is_found() {
        assert!(hour(|_, n| 1e6 + 10_000.0 * (n / 40) as f64).grows());
        assert!(hour(|_, n| 30.0 + (n / 60) as f64).grows());
    }

    #[test]
    fn what_falls_does_not_grow() {
        let trend = hour(|hours, _| 1e6 - 1e5 * hours);
        assert!(trend.percent() < -10.0);
        assert!(!trend.grows());
    }

    #[test]
    fn what_is_nearly_always_nothing_does_not_grow() {
        assert!(!hour(|_, _| 0.0).grows());
        let once_at_the_end = hour(|_, n| f64::from(u8::from(n == SAMPLES - 1)));
        assert!(once_at_the_end.percent() > LIMIT_PERCENT);
        assert!(!once_at_the_end.grows());
    }

    #[test]
    fn what_begins_with_nothing_grows() {
        assert!(hour(|_, n| (n / 20) as f64).grows());
    }
}
