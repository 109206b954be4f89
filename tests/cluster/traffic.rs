//! What copies cost: bytes over a slow link, and time beside a node that hangs.

use crate::common::*;
use disque_testing::Proxy;

/// Two nodes, each reached over a link that takes so long in each direction; the
/// second proxy stands in front of the second node.
fn far_apart(delay: Duration) -> (Cluster, Vec<Proxy>) {
    let cluster = Cluster::strangers(2, Options::new());
    let mut proxies = Vec::new();
    for at in 0..2 {
        let proxy = Proxy::new(cluster[at].port(), delay);
        let mut c = cluster[at].client();
        let port = proxy.port();
        for setting in [
            format!("disque.announce-port {port}"),
            "disque.node-timeout 5000".to_string(),
        ] {
            c.run(&format!("CONFIG SET {setting}")).expect_ok();
        }
        proxies.push(proxy);
    }
    let port = proxies[1].port();
    let mut c = cluster[0].client();
    c.start(&format!("DISQUE MEET 127.0.0.1 {port}"));
    c.read(secs(10)).expect("an answer").expect_ok();
    cluster.wait_connected();
    (cluster, proxies)
}

#[test]
fn over_a_slow_link_each_job_is_sent_once() {
    // It takes some seconds to carry them.
    const JOBS: usize = 3000;
    const BODY: usize = 2000;
    let (cluster, proxies) = far_apart(ms(250));
    let body = "x".repeat(BODY);
    let mut c = cluster[0].client();
    let before = proxies[1].bytes_there();
    for _ in 0..JOBS {
        add_with(&mut c, "q", &body, "0 REPLICATE 2 ASYNC");
    }
    wait_figure(&cluster[0], "under_replicated", 0, secs(30));
    // Longer than the time after which it would be said again.
    std::thread::sleep(secs(3));
    let sent = proxies[1].bytes_there() - before;
    assert_eq!(figure(&cluster[1], "registered_jobs"), JOBS as i64);
    let once = (JOBS * BODY) as u64;
    println!("{sent} bytes for {once} bytes of bodies");
    assert!(
        sent >= once && sent < once * 6 / 5,
        "{sent} bytes for {once}"
    );
    // One that waits gets its answer after one round trip.
    let start = Instant::now();
    add_with(&mut c, "q", "x", "5000 REPLICATE 2");
    let took = start.elapsed();
    println!("one with its copy: {took:?}");
    assert!(took >= ms(490) && took < ms(900), "{took:?}");
}

#[test]
fn acknowledgements_pass_a_slow_link_a_few_times_each() {
    const JOBS: usize = 500;
    let (cluster, proxies) = far_apart(ms(250));
    let mut c = cluster[0].client();
    let mut ids = Vec::new();
    for _ in 0..JOBS {
        ids.push(add_with(&mut c, "q", "x", "0 REPLICATE 2 ASYNC"));
    }
    wait_figure(&cluster[0], "under_replicated", 0, secs(30));
    let count = |proxies: &[Proxy]| proxies[0].bytes_there() + proxies[1].bytes_there();
    let before = count(&proxies);
    for id in &ids {
        c.run(&format!("ACKJOB {id}")).expect_number(1);
    }
    wait_empty(&cluster, secs(20));
    std::thread::sleep(secs(2));
    let each = (count(&proxies) - before) / JOBS as u64;
    println!("{each} bytes for each acknowledgement");
    assert!(each < 600, "{each} bytes for each acknowledgement");
}

#[test]
fn beside_a_node_that_hangs_copies_are_made_in_time() {
    let cluster = Cluster::new(3);
    let third = cluster.id(2);
    for at in 0..3 {
        let mut c = cluster[at].client();
        c.run("CONFIG SET disque.node-timeout 3000").expect_ok();
    }
    cluster[2].sigstop();
    let mut c = cluster[0].client();
    let mut worst = [Duration::ZERO; 2];
    let start = Instant::now();
    while start.elapsed() < secs(8) {
        let mut nodes = hello(&mut c).into_iter();
        let noticed = nodes.any(|node| node.id == third && node.priority > 1);
        let one = Instant::now();
        add_with(&mut c, "q", "x", "5000 REPLICATE 2");
        let phase = &mut worst[usize::from(noticed)];
        *phase = one.elapsed().max(*phase);
        std::thread::sleep(ms(5));
    }
    println!(
        "slowest before it is noticed: {:?}, after: {:?}",
        worst[0], worst[1]
    );
    assert!(worst[0] < ms(500), "before it is noticed: {:?}", worst[0]);
    assert!(worst[1] < ms(500), "after it is noticed: {:?}", worst[1]);
}

#[test]
fn copies_that_wait_cost_nothing() {
    let _alone = quiet_machine();
    let options = Options::new().alone().set("disque.node-timeout", "5000");
    let cluster = Cluster::strangers(3, options);
    for at in 0..3 {
        let mut c = cluster[at].client();
        c.run("CONFIG SET disque.node-timeout 5000").expect_ok();
    }
    cluster.join();
    let mut c = cluster[0].client();
    for _ in 0..5000 {
        add_with(&mut c, "q", "x", "0 REPLICATE 3 SYNC 1 RETRY 300");
    }
    wait_figure(&cluster[0], "under_replicated", 0, secs(20));
    std::thread::sleep(secs(2));
    let used = || [0, 1, 2].map(|at| cluster[at].cpu_time());
    let before = used();
    std::thread::sleep(secs(5));
    for (at, (before, after)) in before.into_iter().zip(used()).enumerate() {
        let took = after - before;
        println!("node {at} used {took:?} in 5 s");
        assert!(took < ms(150), "node {at} used {took:?} in 5 s");
    }
}
