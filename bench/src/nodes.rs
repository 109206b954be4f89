//! Several servers: jobs with three copies, jobs that are taken at another node.

use crate::compare::{figures_of, head, in_turns, line, measure, median, Aim, Figures};
use crate::load::{load, Shape};
use crate::systems::{batch_of, command, options, pin_load, with_replicas, BODY, DEEP, FIFTY};
use crate::Plan;
use disque_testing::{Client, Cluster, Server};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const NODES: usize = 3;

/// w3: copies on three nodes, beside a stream with two replicas and WAIT 2.
pub fn copies(plan: &Plan) {
    pin_load(false);
    let mut cluster = Cluster::start(NODES, options());
    let module = &cluster.servers()[0];
    let streams = with_replicas(NODES);
    head("w3 add on 3 nodes, REPLICATE 3, beside XADD and WAIT 2 0");
    let one = Shape {
        connections: 1,
        window: 1,
    };
    let options = ["5000", "REPLICATE", "3"];
    let single = command(&[&["ADDJOB", "q", BODY], &options[..]].concat());
    let batch = batch_of(DEEP.window, &[&["ADDJOBS", "q"], &options[..]].concat());
    // The first aim is one of time: p50 at most 0.8 of the other.
    for (what, shape, add, aim) in [
        ("1 x 1 (aim: p50 <= 0.8)", one, &single, Aim::AtLeast(1.25)),
        ("50 x 1", FIFTY, &single, Aim::AtLeast(0.9)),
        ("50 x 16", DEEP, &single, Aim::AtLeast(0.25)),
        (
            "50 x ADDJOBS of 16, in jobs",
            DEEP,
            &batch,
            Aim::AtLeast(0.8),
        ),
    ] {
        let batches = plan.commands / if shape.connections == 1 { 20 } else { 2 } / shape.window;
        let jobs = batches * shape.window;
        // A batch is one command under way.
        let is_batch = std::ptr::eq(add, &batch);
        let (count, window) = if is_batch {
            (batches, 1)
        } else {
            (jobs, shape.window)
        };
        let add = vec![add.clone(); count];
        // One WAIT for each batch: it is what makes the batch safe.
        let xadd = command(&["XADD", "s", "*", "body", BODY]);
        let mut waited = vec![xadd; shape.window];
        waited.push(command(&["WAIT", "2", "0"]));
        let waited = vec![waited; batches].concat();
        let with_wait = Shape {
            window: shape.window + 1,
            ..shape
        };
        let of_jobs = Shape { window, ..shape };
        in_turns(
            plan.rounds,
            what,
            &aim,
            || measure(module, jobs, || load(module.port(), of_jobs, &add, false)),
            || {
                measure(&streams[0], jobs, || {
                    load(streams[0].port(), with_wait, &waited, false)
                })
            },
        );
    }
    pin_load(true);
}

/// w4: from the sending of ADDJOB until a consumer has the job.
pub fn across(plan: &Plan) {
    pin_load(false);
    let mut cluster = Cluster::start(NODES, options());
    let servers = &*cluster.servers();
    println!(
        "\nw4 from ADDJOB to a waiting consumer, {} s each",
        plan.seconds
    );
    for (what, to, aims) in [
        ("at another node, 1,000 jobs/s", 1, (0.5, 3.0)),
        ("at the same node, 1,000 jobs/s", 0, (0.15, 0.6)),
    ] {
        let turn = |round: usize| {
            let queue = format!("paced:{to}:{round}");
            flow(
                &servers[0],
                &servers[to],
                &queue,
                4,
                Some(1_000),
                plan.seconds,
            )
        };
        let turns: Vec<Figures> = (0..plan.rounds).map(turn).collect();
        let (p50, p99) = (
            median(turns.iter().map(|f| f.p50 / 1e3)),
            median(turns.iter().map(|f| f.p99 / 1e3)),
        );
        line(
            &format!("{what}, p50"),
            "ms",
            p50,
            None,
            &Aim::AtMost(aims.0),
            p50,
        );
        line(
            &format!("{what}, p99"),
            "ms",
            p99,
            None,
            &Aim::AtMost(aims.1),
            p99,
        );
    }
    let turn = |round: usize| {
        let queue = format!("full:{round}");
        flow(&servers[0], &servers[1], &queue, 10, None, plan.seconds).rate
    };
    let rate = median((0..plan.rounds).map(turn));
    let aim = Aim::AtLeast(15_000.0);
    line(
        "at another node, as fast as it goes",
        "jobs/s",
        rate,
        None,
        &aim,
        rate,
    );
    let first =
        median((0..plan.rounds * 3).map(|round| first_job(&servers[0], &servers[1], round)));
    line(
        "first job of a consumer that waited 1 s",
        "ms",
        first,
        None,
        &Aim::AtMost(5.0),
        first,
    );
    pin_load(true);
}

/// What the threads of a flow share.
struct Flow {
    queue: String,
    /// When each job was sent; its number is its body.
    sent: Mutex<Vec<Instant>>,
    taken: AtomicUsize,
    latencies: Mutex<Vec<f64>>,
}

/// Producers at one server, ten consumers at the other.
fn flow(
    from: &Server,
    to: &Server,
    queue: &str,
    producers: usize,
    rate: Option<u64>,
    seconds: u64,
) -> Figures {
    let flow = Arc::new(Flow {
        queue: queue.into(),
        sent: Mutex::default(),
        taken: AtomicUsize::new(0),
        latencies: Mutex::default(),
    });
    let consumers: Vec<_> = (0..10)
        .map(|_| {
            let (flow, client) = (flow.clone(), to.client());
            std::thread::spawn(move || consume(&flow, client))
        })
        .collect();
    let start = Instant::now();
    let end = start + Duration::from_secs(seconds);
    let threads: Vec<_> = (0..producers)
        .map(|_| {
            let (flow, client) = (flow.clone(), from.client());
            let pause = rate.map(|rate| Duration::from_secs(producers as u64) / rate as u32);
            std::thread::spawn(move || produce(&flow, client, pause, end))
        })
        .collect();
    threads
        .into_iter()
        .for_each(|t| t.join().expect("a producer"));
    let time = start.elapsed();
    let taken = flow.taken.load(Ordering::Relaxed);
    consumers
        .into_iter()
        .for_each(|t| t.join().expect("a consumer"));
    let latencies = std::mem::take(&mut *flow.latencies.lock().expect("no panic"));
    figures_of(latencies, time, taken)
}

fn produce(flow: &Flow, mut client: Client, pause: Option<Duration>, end: Instant) {
    let mut next = Instant::now();
    while Instant::now() < end {
        let number = {
            let mut sent = flow.sent.lock().expect("no panic");
            sent.push(Instant::now());
            sent.len() - 1
        };
        let body = format!("{number:0100}");
        client
            .call(&["ADDJOB", &flow.queue, &body, "5000", "REPLICATE", "1"])
            .expect_job_id();
        if let Some(pause) = pause {
            next += pause;
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
    }
}

/// Takes and acknowledges jobs until none comes for a second.
fn consume(flow: &Flow, mut client: Client) {
    loop {
        let reply = client.call(&["GETJOB", "TIMEOUT", "1000", "FROM", &flow.queue]);
        if reply.is_null() {
            return;
        }
        let now = Instant::now();
        let job = reply.expect_array()[0].items().to_vec();
        let number: usize = job[2].text().parse().expect("a number");
        let sent = flow.sent.lock().expect("no panic")[number];
        let took = now.duration_since(sent).as_secs_f64() * 1e6;
        flow.latencies.lock().expect("no panic").push(took);
        flow.taken.fetch_add(1, Ordering::Relaxed);
        client.call(&["ACKJOB", job[1].text()]).expect_number(1);
    }
}

/// Milliseconds until a consumer that has waited a second has the first job of its
/// queue.
fn first_job(from: &Server, to: &Server, round: usize) -> f64 {
    let queue = format!("first:{round}");
    let (mut consumer, mut producer) = (to.client(), from.client());
    consumer.send(&["GETJOB", "FROM", &queue]);
    std::thread::sleep(Duration::from_secs(1));
    let start = Instant::now();
    producer.send(&["ADDJOB", &queue, BODY, "5000", "REPLICATE", "1"]);
    consumer.reply().expect_array();
    start.elapsed().as_secs_f64() * 1e3
}
