//! A user who fills a buffer that others share with names and attributes alone.

use tests::sharing::{ADA, GRACE, Site};

/// Sets attributes of 60 kB on new files, at most so many, and says how many it could set and what stopped it; then
/// what `statvfs` says, and whether what is there can still be read, cut off and removed.
const FILL: &str = r#"
import errno, os, sys
os.chdir(sys.argv[1] + "/grace")
set_, stopped, value = 0, "nothing", b"x" * 60000
try:
    while set_ < 8000:
        if set_ % 4 == 0: open(str(set_), "w").write("kept"); file = str(set_)
        os.setxattr(file, "user.%d" % (set_ % 4), value); set_ += 1
except OSError as error: stopped = errno.errorcode[error.errno]
def refused(do):
    try: do()
    except OSError as error: return errno.errorcode[error.errno]
    return "done"
long, made, linked = (lambda: "%0250d" % made), 0, "done"
while made < 2000 and refused(lambda: os.mkdir(long())) == "done": made += 1
# A link takes less.
while made < 2000 and linked == "done": linked, made = refused(lambda: os.link("0", long())), made + 1
stat = os.statvfs(".")
used = (stat.f_blocks - stat.f_bfree) * stat.f_frsize
print(stopped, "free" if stat.f_ffree > 1 else "full", "shown" if used > 1 << 25 else used)
print(linked, open("0").read(), len(os.getxattr("0", "user.0")))
print(refused(lambda: os.truncate("0", 0)), refused(lambda: os.chmod("0", 0o640)), refused(lambda: os.rename("4", "5")))
print(refused(lambda: os.removexattr("0", "user.0")), refused(lambda: os.unlink("8")))
"#;

/// Grace does it; ada's part of the buffer is readable, and writable once grace has removed hers.
pub fn filled(site: &Site) {
    let buffer = site.shared_buffer();
    let mut ada = site.session(ADA, &buffer, "");
    ada.data_in().expect_success();
    ada.mount();
    ada.run("chmod 1777 $B; mkdir -m 777 $B/grace; echo kept > $B/ada").expect_success();
    let mut grace = site.session(GRACE, &buffer, "");
    grace.data_in().expect_success();
    grace.mount();
    let full = grace.run(&format!("python3 - $B <<'END'\n{FILL}\nEND"));
    assert_eq!(
        full.stdout, "ENOSPC full shown\nENOSPC kept 60000\ndone done done\ndone done\n",
        "{}",
        full.stderr
    );
    assert_eq!(ada.run("cat $B/ada && echo new >> $B/ada").expect_success().stdout, "kept\n");
    grace.run("rm -r $B/grace/*").expect_success();
    ada.run("touch $B/more && setfattr -n user.a -v b $B/more && mkdir $B/folder").expect_success();
    [ada, grace].into_iter().for_each(tests::sharing::Session::end);
    site.destroy(&buffer);
}
