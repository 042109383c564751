//! Files that are written to through maps, on a flash that gives them no other time of change then.

use std::fs;
use std::process::Command;

use super::node::Node;
use super::{Unmounted, can_mount, mount, read};

#[test]
fn what_was_written_through_a_map_in_memory_is_drained() {
    if !can_mount() {
        return;
    }
    // The drained folder, or one below.
    for at in ["", "below/memory"] {
        is_drained_in_memory(at);
    }
}

fn is_drained_in_memory(at: &str) {
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    let memory = node.from.join(at);
    fs::create_dir_all(&memory).unwrap();
    mount(&["mount", "-t", "tmpfs", "none"], &memory);
    let _unmounted = Unmounted(memory.clone());
    let (source, program, file) = (root.path().join("map.c"), root.path().join("map"), memory.join("file"));
    fs::write(&source, WRITES_THROUGH_A_MAP).unwrap();
    assert!(Command::new("cc").arg("-o").arg(&program).arg(&source).status().unwrap().success());
    let write =
        |letter: &str| assert!(Command::new(&program).arg(&file).arg(letter).status().unwrap().success());
    node.start();
    fs::write(&file, "A".repeat(4096)).unwrap();
    assert_eq!(node.settle().failed, []);
    write("B");
    assert_eq!(node.settle().failed, []);
    assert_eq!(read(&node.to.join(at).join("file")), "B".repeat(4096));
    node.kill();
    write("C");
    node.start();
    assert_eq!(node.settle().failed, []);
    assert_eq!(read(&node.to.join(at).join("file")), "C".repeat(4096));
    node.kill();
}

const WRITES_THROUGH_A_MAP: &str = "
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
int main(int count, char **words) {
    int file = open(words[1], O_RDWR);
    char *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (map == MAP_FAILED) return 1;
    // What was read is written to without another fault.
    volatile char before = map[0];
    memset(map, words[2][0], 4096);
    return munmap(map, 4096);
}
";
