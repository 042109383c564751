//! What TCP itself costs on loopback: round trips between two threads, and one stream of `iperf3`.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::work::rate;

const ROUND_TRIPS: usize = 20_000;

/// Bytes of a request without payload, about.
pub const REQUEST_BYTES: usize = 64;

/// Seconds for one round trip: `there` bytes one way, `back` bytes the other.
pub fn round_trip(there: usize, back: usize) -> Result<f64> {
    Ok(1.0 / round_trips(1, there, back)?)
}

/// Round trips per second on several connections at once, each between two threads of its own.
pub fn round_trips(connections: usize, there: usize, back: usize) -> Result<f64> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let rates: Vec<f64> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..connections)
            .map(|_| {
                let stream = TcpStream::connect(address)?;
                let (accepted, _) = listener.accept()?;
                scope.spawn(move || serve(&accepted, there, back));
                Ok(scope.spawn(move || ask(&stream, there, back)))
            })
            .collect::<Result<_>>()?;
        clients.into_iter().map(|client| client.join().expect("it does not panic")).collect::<Result<_>>()
    })?;
    Ok(rates.iter().sum())
}

fn serve(mut stream: &TcpStream, there: usize, back: usize) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut request, reply) = (vec![0; there], vec![0; back]);
    (0..ROUND_TRIPS).try_for_each(|_| {
        stream.read_exact(&mut request)?;
        stream.write_all(&reply)
    })
}

/// Round trips per second.
fn ask(mut stream: &TcpStream, there: usize, back: usize) -> Result<f64> {
    stream.set_nodelay(true)?;
    let (request, mut reply) = (vec![0; there], vec![0; back]);
    rate("round trips over TCP", ROUND_TRIPS, || {
        (0..ROUND_TRIPS).try_for_each(|_| {
            stream.write_all(&request)?;
            stream.read_exact(&mut reply)
        })
    })
}

/// MiB/s of one `iperf3` stream of 1 MiB writes, for a second.
pub fn iperf3() -> Result<f64> {
    // A port that was free a moment ago.
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port().to_string();
    let mut server = Command::new("iperf3")
        .args(["--server", "--one-off", "--bind", "127.0.0.1", "--port", &port])
        .stdout(Stdio::null())
        .spawn()
        .context("start iperf3 (scripts/install-deps bench)")?;
    let measured = iperf3_client(&port);
    if measured.is_err() {
        server.kill()?;
    }
    server.wait()?;
    measured
}

fn iperf3_client(port: &str) -> Result<f64> {
    let arguments = ["--client", "127.0.0.1", "--port", port, "--length", "1M", "--time", "1", "--json"];
    // The server may not listen yet.
    for _ in 0..100 {
        let output = Command::new("iperf3").args(arguments).output()?;
        let report: serde_json::Value =
            serde_json::from_slice(&output.stdout).context("read iperf3's report")?;
        if let Some(bits) = report["end"]["sum_received"]["bits_per_second"].as_f64() {
            return Ok(bits / 8.0 / f64::from(1 << 20));
        }
        ensure!(
            report["error"].as_str().is_some_and(|text| text.contains("refused")),
            "iperf3 says {report}"
        );
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    anyhow::bail!("iperf3's server does not listen")
}
