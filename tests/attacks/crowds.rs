//! Users who ask so much of control that nobody else would be answered.

use tests::attackers::{ON_THE_MACHINE, OVER_THE_NETWORK};
use tests::processes::wait_until;
use tests::sharing::Site;

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
    assert!(wait_until(std::time::Duration::from_secs(10), || site.dwstat("nodes").contains("n4")));
}
