//! Runs in turns, medians and ratios.

use crate::load::Run;
use disque_testing::Server;
use std::time::Duration;

/// What one run gave.
#[derive(Clone, Copy, Default)]
pub struct Figures {
    /// Operations or jobs per second.
    pub rate: f64,
    /// Half of the commands were faster, in microseconds.
    pub p50: f64,
    /// 99 of 100 were.
    pub p99: f64,
    /// Processor time of the server for each operation, in microseconds.
    pub cpu: f64,
}

/// Runs a load and measures the server meanwhile. A command may stand for several
/// `jobs`.
pub fn measure(server: &Server, jobs: usize, work: impl FnOnce() -> Run) -> Figures {
    let before = server.cpu_time();
    let run = work();
    let cpu = server.cpu_time() - before;
    let mut figures = figures_of(run.latencies, run.time, jobs);
    figures.cpu = cpu.as_secs_f64() * 1e6 / jobs as f64;
    figures
}

/// The figures of so many jobs in that time.
pub fn figures_of(mut latencies: Vec<f64>, time: Duration, jobs: usize) -> Figures {
    latencies.sort_by(f64::total_cmp);
    let part = |part: f64| {
        let place = (latencies.len() as f64 * part) as usize;
        latencies.get(place).copied().unwrap_or_default()
    };
    Figures {
        rate: jobs as f64 / time.as_secs_f64(),
        p50: part(0.5),
        p99: part(0.99),
        cpu: 0.0,
    }
}

/// The middle one.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// What is reached and what is wanted of it.
pub enum Aim {
    /// At least this.
    AtLeast(f64),
    /// At most this.
    AtMost(f64),
    /// Nothing is wanted.
    None,
}

impl Aim {
    /// The aim, and whether a value reaches it.
    pub fn verdict(&self, value: f64) -> String {
        let (text, reached) = match *self {
            Aim::AtLeast(aim) => (format!(">= {aim}"), value >= aim),
            Aim::AtMost(aim) => (format!("<= {aim}"), value <= aim),
            Aim::None => return String::new(),
        };
        text + if reached { "" } else { " SHORT" }
    }
}

/// Head of the table that [`in_turns`] writes.
pub fn head(what: &str) {
    println!("\n{what}");
    println!(
        "{:<34} {:>9} {:>9}  {:<19} {:<13} {:>15} {:>15}  {:>13}",
        "", "module", "other", "ratio [range]", "aim", "p50/p99 us", "other", "CPU us/job"
    );
}

/// Runs both sides in turns and writes a line: medians, and the median of the ratios
/// of each pair.
pub fn in_turns(
    rounds: usize,
    what: &str,
    aim: &Aim,
    mut ours: impl FnMut() -> Figures,
    mut theirs: impl FnMut() -> Figures,
) {
    let mut pairs = Vec::new();
    for round in 0..rounds {
        // Who is first has the caches, or the noise, of another moment.
        let pair = if round % 2 == 0 {
            let ours = ours();
            (ours, theirs())
        } else {
            let theirs = theirs();
            (ours(), theirs)
        };
        pairs.push(pair);
    }
    let ratios: Vec<f64> = pairs.iter().map(|(a, b)| a.rate / b.rate).collect();
    let ratio = median(ratios.iter().copied());
    let (low, high) = ratios.iter().fold((f64::MAX, 0.0_f64), |(low, high), &r| {
        (low.min(r), high.max(r))
    });
    let of = |side: fn(&(Figures, Figures)) -> f64| median(pairs.iter().map(side));
    println!(
        "{what:<34} {:>9.0} {:>9.0}  {ratio:.2} [{low:.2}, {high:.2}]   {:<13} {:>7.0}/{:<7.0} {:>7.0}/{:<7.0}  {:>6.2}/{:<6.2}",
        of(|p| p.0.rate),
        of(|p| p.1.rate),
        aim.verdict(ratio),
        of(|p| p.0.p50),
        of(|p| p.0.p99),
        of(|p| p.1.p50),
        of(|p| p.1.p99),
        of(|p| p.0.cpu),
        of(|p| p.1.cpu),
    );
}

/// Writes a line with one value for each side.
pub fn line(what: &str, unit: &str, ours: f64, theirs: Option<f64>, aim: &Aim, judged: f64) {
    let other = theirs.map_or(String::new(), |value| format!("other {value:.2} {unit}"));
    println!(
        "{what:<44} {ours:>10.2} {unit:<6} {other:<24} {}",
        aim.verdict(judged)
    );
}
