//! A link with a delay: a listener that passes bytes on to a port of this machine, later.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// How much is read at a time, and how many of such pieces may be under way.
const PIECE: usize = 64 << 10;
const UNDER_WAY: usize = 4096;
/// How soon a proxy that is dropped stops to listen.
const LOOK: Duration = Duration::from_millis(20);

/// Passes connections on to a port, each byte after a delay, in both directions. It ends
/// when it is dropped; connections end with their ends.
pub struct Proxy {
    port: u16,
    there: Arc<AtomicU64>,
    back: Arc<AtomicU64>,
    ended: Arc<AtomicBool>,
}

impl Proxy {
    /// A listener on a port of its own in front of `target`.
    pub fn new(target: u16, delay: Duration) -> Proxy {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("no port for a proxy");
        let port = listener.local_addr().expect("an address").port();
        listener.set_nonblocking(true).expect("a listener");
        let proxy = Proxy {
            port,
            there: Arc::default(),
            back: Arc::default(),
            ended: Arc::default(),
        };
        let (there, back) = (proxy.there.clone(), proxy.back.clone());
        let ended = proxy.ended.clone();
        thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                match listener.accept() {
                    // Where nobody listens the connection just ends.
                    Ok((client, _)) => {
                        let _ = connect(client, target, delay, &there, &back);
                    }
                    Err(_) => thread::sleep(LOOK),
                }
            }
        });
        proxy
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Bytes that went to the target so far.
    pub fn bytes_there(&self) -> u64 {
        self.there.load(Ordering::Relaxed)
    }

    /// Bytes that came back so far.
    pub fn bytes_back(&self) -> u64 {
        self.back.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

fn connect(
    client: TcpStream,
    target: u16,
    delay: Duration,
    there: &Arc<AtomicU64>,
    back: &Arc<AtomicU64>,
) -> io::Result<()> {
    client.set_nonblocking(false)?;
    let server = TcpStream::connect(("127.0.0.1", target))?;
    pass(
        client.try_clone()?,
        server.try_clone()?,
        delay,
        there.clone(),
    );
    pass(server, client, delay, back.clone());
    Ok(())
}

/// One direction of a connection: a thread that reads, and one that writes later.
fn pass(from: TcpStream, to: TcpStream, delay: Duration, count: Arc<AtomicU64>) {
    let (sender, receiver) = sync_channel(UNDER_WAY);
    thread::spawn(move || read(from, &sender, &count));
    thread::spawn(move || write(to, &receiver, delay));
}

fn read(mut from: TcpStream, to: &SyncSender<(Instant, Vec<u8>)>, count: &AtomicU64) {
    let mut piece = vec![0; PIECE];
    while let Ok(length @ 1..) = from.read(&mut piece) {
        count.fetch_add(length as u64, Ordering::Relaxed);
        if to.send((Instant::now(), piece[..length].to_vec())).is_err() {
            return;
        }
    }
}

fn write(mut to: TcpStream, from: &Receiver<(Instant, Vec<u8>)>, delay: Duration) {
    let _ = to.set_nodelay(true);
    while let Ok((read_at, bytes)) = from.recv() {
        thread::sleep((read_at + delay).saturating_duration_since(Instant::now()));
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
