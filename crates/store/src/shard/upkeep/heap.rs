//! Memory that the process has no more use for.

#![expect(unsafe_code, reason = "there is no safe way to the allocator")]

/// Gives it back to the kernel. Of a tree of half a million files that a thread built and dropped glibc keeps nearly
/// all, 220 MB, in the arena that it made for that thread.
pub(super) fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim(3) takes a number, and may be called by any thread at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}
