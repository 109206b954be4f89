//! Several servers: jobs with three copies, jobs that are taken at another node.

use crate::compare::{head, in_turns, line, measure, median, Aim, Figures};
use crate::flow::{flow, Course};
use crate::load::{load, Shape};
use crate::systems::{batch_of, command, options, pin_load, with_replicas, BODY, DEEP, FIFTY};
use crate::Plan;
use disque_testing::{Cluster, Server};
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
    let jobs = plan.commands / 2;
    for (what, shape) in [("one at a time", one), ("50 x 16", DEEP)] {
        let jobs = if shape.connections == 1 {
            jobs / 10
        } else {
            jobs
        };
        let before = received(&mut cluster);
        load(
            cluster.servers()[0].port(),
            shape,
            &vec![single.clone(); jobs],
            false,
        );
        let bytes = (received(&mut cluster) - before) / (jobs * (NODES - 1)) as f64;
        let what = format!("to each node per copy of 100 bytes, {what}");
        line(&what, "bytes", bytes, None, &Aim::None, bytes);
    }
    pin_load(true);
}

/// Bytes that the nodes have received which nobody adds at.
fn received(cluster: &mut Cluster) -> f64 {
    let bytes = |server: &Server| server.info_number("stats", "total_net_input_bytes");
    cluster.servers()[1..].iter().map(bytes).sum::<i64>() as f64
}

/// w4: from the sending of ADDJOB until a consumer has the job.
pub fn across(plan: &Plan) {
    pin_load(false);
    let mut cluster = Cluster::start(NODES, options());
    let servers = &*cluster.servers();
    println!(
        "\nw4 from ADDJOB, REPLICATE 3, to a waiting consumer, {} s each",
        plan.seconds
    );
    let course = |to: usize, queue: String| Course {
        from: &servers[0],
        to: &servers[to],
        queue,
        copies: NODES,
        producers: 10,
        rate: None,
        time: Duration::from_secs(plan.seconds),
    };
    for (what, to, aims) in [
        ("at another node, 1,000 jobs/s", 1, (0.5, 3.0)),
        ("at the same node, 1,000 jobs/s", 0, (0.15, 0.6)),
    ] {
        let turn = |round| {
            flow(&Course {
                producers: 4,
                rate: Some(1_000),
                ..course(to, format!("paced:{to}:{round}"))
            })
        };
        let turns: Vec<Figures> = (0..plan.rounds).map(turn).collect();
        let milliseconds = |part: fn(&Figures) -> f64| median(turns.iter().map(part)) / 1e3;
        for (part, time, aim) in [
            ("p50", milliseconds(|f| f.p50), aims.0),
            ("p99", milliseconds(|f| f.p99), aims.1),
        ] {
            let what = format!("{what}, {part}");
            line(&what, "ms", time, None, &Aim::AtMost(aim), time);
        }
    }
    for (what, copies, aim) in [
        ("at another node, as fast as it goes", 3, Aim::AtLeast(15e3)),
        ("the same, REPLICATE 1", 1, Aim::None),
    ] {
        let turn = |round| {
            flow(&Course {
                copies,
                ..course(1, format!("full:{copies}:{round}"))
            })
        };
        let rate = median((0..plan.rounds).map(|round| turn(round).rate));
        line(what, "jobs/s", rate, None, &aim, rate);
    }
    let rounds = 0..plan.rounds * 3;
    let first = median(rounds.map(|round| first_job(&servers[0], &servers[1], round)));
    let what = "first job of a consumer that waited 1 s";
    line(what, "ms", first, None, &Aim::AtMost(5.0), first);
    pin_load(true);
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
