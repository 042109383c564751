//! Users who ask so much of control that nobody else would be answered.

use std::fs;
use std::time::{Duration, Instant};

use tests::attackers::{ON_THE_MACHINE, OVER_THE_NETWORK};
use tests::hosts::plain;
use tests::processes::wait_until;
use tests::sharing::{ADA, GRACE, Site};

/// Ada and grace do both at once; the workload manager is answered each time, and no node is lost sight of.
pub fn control(site: &Site) {
    std::thread::scope(|scope| {
        let ada = scope.spawn(|| site.on("n3/ada", &["python3", "-c", OVER_THE_NETWORK]));
        let grace = scope.spawn(|| site.on("head/grace", &["python3", "-c", ON_THE_MACHINE]));
        let mut answered = 0;
        while !(ada.is_finished() && grace.is_finished()) {
            let pools = site.on("head", &[&site.program("dw_wlm_cli"), "--function", "pools"]);
            assert!(pools.stdout.contains("wlm_pool"), "{}{}", pools.stdout, pools.stderr);
            assert!(!site.dwstat("nodes").contains("offline"), "{}", site.dwstat("nodes"));
            answered += 1;
        }
        assert!(answered > 10, "it was answered {answered} times only");
        let (ada, grace) = (ada.join().expect("it ends"), grace.join().expect("it ends"));
        assert_eq!(ada.stdout, "left 0 refused 60\n", "{}", ada.stderr);
        assert_eq!(grace.stdout, "refused\n", "{}", grace.stderr);
    });
    assert!(wait_until(Duration::from_secs(10), || site.dwstat("nodes").contains("n4")));
}

/// What one user does to the data ports of both nodes that store: as many connections as they can be made, on which
/// nothing is said, held until the node ends them. It says how many it has made, once it is told to stop.
const STRANGERS: &str = r#"
import collections, os, resource, select, socket, sys, time
limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
held, made, poll = {}, 0, select.poll()
print("begun", flush=True)
while not os.path.exists(sys.argv[1]):
    begun = time.time()
    for host in ["n1", "n2"] * 10:
        one = socket.socket(); one.setblocking(False)
        try: one.connect((host, 7072))
        except BlockingIOError: pass
        except OSError: one.close(); continue
        held[one.fileno()] = one; made += 1
        poll.register(one.fileno(), select.POLLHUP | select.POLLRDHUP)
    for number, _ in poll.poll(0): poll.unregister(number); held.pop(number).close()
    while len(held) > 8000:
        number, one = next(iter(held.items())); poll.unregister(number); held.pop(number); one.close()
    time.sleep(max(0, 0.01 - (time.time() - begun)))
print(made)
"#;

/// A session takes less without a crowd.
const PATIENCE: Duration = Duration::from_secs(20);

/// Nor does it fill the log of a node.
const LOG_BYTES_MAX: u64 = 40_000;

/// Grace does it on the node on which ada mounts her buffer, works in it, and has it staged out.
pub fn data_port(site: &Site) {
    let logs = || {
        ["n1", "n2"].map(|node| {
            fs::metadata(site.folder().join(format!("log/{node}.log"))).expect("it writes one").len()
        })
    };
    let (stop, buffer) = (site.pfs(GRACE).join("stop"), site.shared_buffer());
    let out = site.pfs(ADA);
    std::thread::scope(|scope| {
        let words = ["python3", "-c", STRANGERS, plain(&stop)];
        let grace = scope.spawn(move || site.on("n3/grace", &words));
        // All places are taken by then, where strangers can take them.
        std::thread::sleep(Duration::from_secs(3));
        let before = logs();
        let mut slowest = Duration::ZERO;
        for number in 0..5 {
            let lines = format!(
                "#DW stage_out type=file source=$DW_PERSISTENT_STRIPED_{buffer}/f{number} destination={}/f{number}",
                plain(&out)
            );
            let begun = Instant::now();
            let mut ada = site.session(ADA, &buffer, &lines);
            ada.data_in().expect_success();
            ada.mount();
            ada.run(&format!("echo {number} > $B/f{number}; cat $B/f{number}")).expect_success();
            ada.data_out().expect_success();
            ada.end();
            slowest = slowest.max(begun.elapsed());
        }
        let after = logs();
        fs::write(&stop, "").expect("ours");
        let grace = grace.join().expect("it ends");
        let made: u64 = grace.stdout.lines().last().and_then(|made| made.parse().ok()).expect("it counts");
        assert!(made > 5000, "{made} connections were made: {}", grace.stderr);
        let grown = [after[0] - before[0], after[1] - before[1]];
        assert!(grown.iter().all(|grown| *grown < LOG_BYTES_MAX), "logs grew by {grown:?} bytes");
        assert!(slowest < PATIENCE, "mount, work and stage-out took {slowest:?}");
    });
    site.destroy(&buffer);
}
