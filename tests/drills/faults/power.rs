//! Power losses: the process is gone, and of its disk what was not synced.

use crate::ground::Ground;

impl Ground {
    /// One storage node, the home of the names or not.
    #[track_caller]
    pub fn lose_power_of_one(&mut self) {
        self.pause(80);
        let n = self.any_storage();
        self.site.storage[n].kill();
        self.disks[n].lose_power();
        self.disks[n].restore();
        self.site.storage[n].start();
        self.pause(80);
    }

    /// All storage nodes at once.
    #[track_caller]
    pub fn lose_power_of_all(&mut self) {
        self.pause(80);
        self.site.storage.iter_mut().for_each(|node| node.kill());
        self.disks.iter_mut().for_each(|disk| {
            disk.lose_power();
            disk.restore();
        });
        self.site.storage.iter_mut().for_each(|node| node.start());
        self.pause(80);
    }
}
