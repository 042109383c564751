//! POSIX access control lists, as the kernel writes them into the two extended attributes below.
//!
//! The kernel obeys them: it asks for an inode's list where the permission bits alone do not decide. What a list does
//! to the bits, and what new inodes inherit, is the file system's part: POSIX 1003.1e draft 17, sections 23.1.3 to
//! 23.1.5.

use rustix::io::Errno;
use wire::data::FileKind;
use wire::data::credential::User;

/// Whoever may use the inode.
pub const ACCESS: &[u8] = b"system.posix_acl_access";
/// What is inherited by whatever is made in a directory.
pub const DEFAULT: &[u8] = b"system.posix_acl_default";

/// The layout's version, which the value begins with (`linux/posix_acl_xattr.h`).
const VERSION: u32 = 2;

const HEADER_BYTES: usize = 4;
const ENTRY_BYTES: usize = 8;

/// Whom an entry is about (`linux/posix_acl.h`); an entry's place in a list grows with it.
mod tag {
    pub const OWNER: u16 = 0x01;
    pub const USER: u16 = 0x02;
    pub const OWNING_GROUP: u16 = 0x04;
    pub const GROUP: u16 = 0x08;
    pub const MASK: u16 = 0x10;
    pub const OTHER: u16 = 0x20;
}

#[derive(Clone, Copy)]
struct Entry {
    tag: u16,
    permissions: u16,
    id: u32,
}

/// A valid list.
pub struct Acl(Vec<Entry>);

impl Acl {
    /// The list in an attribute's value.
    ///
    /// # Errors
    /// EINVAL: it is none that POSIX allows.
    pub fn parse(value: &[u8]) -> Result<Acl, Errno> {
        let (version, entries) = value.split_at_checked(HEADER_BYTES).ok_or(Errno::INVAL)?;
        let chunks = entries.chunks_exact(ENTRY_BYTES);
        if version != VERSION.to_le_bytes() || !chunks.remainder().is_empty() {
            return Err(Errno::INVAL);
        }
        let acl = Acl(chunks.map(Entry::from_bytes).collect());
        if acl.is_valid() { Ok(acl) } else { Err(Errno::INVAL) }
    }

    /// The attribute's value.
    pub fn to_bytes(&self) -> Vec<u8> {
        let entries = self.0.iter().copied().flat_map(Entry::to_bytes);
        VERSION.to_le_bytes().into_iter().chain(entries).collect()
    }

    /// The nine permission bits that stand for it.
    pub fn mode(&self) -> u32 {
        let bits = |tag| self.0.iter().find(|entry| entry.tag == tag).map_or(0, |e| u32::from(e.permissions));
        bits(tag::OWNER) << 6 | bits(self.group_class()) << 3 | bits(tag::OTHER)
    }

    /// Whether the permission bits say all of it.
    pub fn is_minimal(&self) -> bool {
        self.0.len() == 3
    }

    /// Whether it lets a user, who is not the owner, do all of `wanted` (three bits) with an inode of this group.
    pub fn permits(&self, user: &User, gid: u32, wanted: u32) -> bool {
        let bits = |tag| self.0.iter().find(|entry| entry.tag == tag).map(|entry| entry.permissions);
        let mask = bits(tag::MASK).unwrap_or(7);
        let gives = |entry: &Entry| u32::from(entry.permissions & mask) & wanted == wanted;
        if let Some(named) = self.0.iter().find(|entry| entry.tag == tag::USER && entry.id == user.uid) {
            return gives(named);
        }
        let is_his = |entry: &&Entry| match entry.tag {
            tag::OWNING_GROUP => user.is_in(gid),
            tag::GROUP => user.is_in(entry.id),
            _ => false,
        };
        let mut groups = self.0.iter().filter(is_his).peekable();
        if groups.peek().is_some() {
            return groups.any(gives);
        }
        u32::from(bits(tag::OTHER).unwrap_or(0)) & wanted == wanted
    }

    /// The list after `chmod`.
    pub fn with_mode(mut self, mode: u32) -> Acl {
        self.change(|_, bits| bits, mode);
        self
    }

    /// As access list of something that is made with `mode` in a directory that has this as default list.
    pub fn inherited(mut self, mode: u32) -> Acl {
        self.change(|permissions, bits| permissions & bits, mode);
        self
    }

    fn change(&mut self, join: impl Fn(u16, u16) -> u16, mode: u32) {
        let group_class = self.group_class();
        for entry in &mut self.0 {
            let shift = match entry.tag {
                tag::OWNER => 6,
                tag if tag == group_class => 3,
                tag::OTHER => 0,
                _ => continue,
            };
            let bits = u16::try_from(mode >> shift & 7).expect("three bits");
            entry.permissions = join(entry.permissions, bits);
        }
    }

    /// Whose permissions the bits of the group show.
    fn group_class(&self) -> u16 {
        let masked = self.0.iter().any(|entry| entry.tag == tag::MASK);
        if masked { tag::MASK } else { tag::OWNING_GROUP }
    }

    fn is_valid(&self) -> bool {
        let count = |tag| self.0.iter().filter(|entry| entry.tag == tag).count();
        let named = count(tag::USER) + count(tag::GROUP);
        let singles = [tag::OWNER, tag::OWNING_GROUP, tag::OTHER];
        self.0.is_sorted_by_key(|entry| entry.tag)
            && self.0.iter().all(|entry| entry.permissions <= 7)
            && singles.iter().all(|tag| count(*tag) == 1)
            && (count(tag::MASK) == 1 || (count(tag::MASK) == 0 && named == 0))
            && self.0.len() == singles.len() + named + count(tag::MASK)
    }
}

impl Entry {
    fn from_bytes(bytes: &[u8]) -> Entry {
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        Entry { tag: half(0), permissions: half(2), id: u32::from(half(4)) | u32::from(half(6)) << 16 }
    }

    fn to_bytes(self) -> [u8; ENTRY_BYTES] {
        let ([t0, t1], [p0, p1]) = (self.tag.to_le_bytes(), self.permissions.to_le_bytes());
        let [i0, i1, i2, i3] = self.id.to_le_bytes();
        [t0, t1, p0, p1, i0, i1, i2, i3]
    }
}

/// Whether an attribute of this name is an access list.
pub fn is_list(name: &[u8]) -> bool {
    matches!(name, ACCESS | DEFAULT)
}

/// Whether an attribute of this name may have this value on an inode of this kind.
///
/// # Errors
/// EINVAL, EACCES, EOPNOTSUPP, as the local file systems.
pub fn check(name: &[u8], value: &[u8], kind: FileKind) -> Result<(), Errno> {
    match name {
        ACCESS | DEFAULT if kind == FileKind::Symlink => Err(Errno::OPNOTSUPP),
        DEFAULT if kind != FileKind::Directory => Err(Errno::ACCESS),
        ACCESS | DEFAULT => Acl::parse(value).map(drop),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    fn acl(entries: &[(u16, u16)]) -> Vec<u8> {
        let entries = entries.iter().map(|&(tag, permissions)| Entry { tag, permissions, id: 7 });
        Acl(entries.collect()).to_bytes()
    }

    const NAMED: [(u16, u16); 5] =
        [(tag::OWNER, 7), (tag::USER, 6), (tag::OWNING_GROUP, 5), (tag::MASK, 7), (tag::OTHER, 1)];

    #[test]
    fn the_mask_stands_for_the_group_where_there_is_one() {
        assert_eq!(Acl::parse(&acl(&NAMED)).unwrap().mode(), 0o771);
        let minimal = acl(&[(tag::OWNER, 6), (tag::OWNING_GROUP, 4), (tag::OTHER, 0)]);
        let minimal = Acl::parse(&minimal).unwrap();
        assert!(minimal.is_minimal() && minimal.mode() == 0o640);
    }

    #[test]
    fn chmod_moves_the_mask_and_what_is_inherited_is_never_more_than_was_asked_for() {
        let changed = Acl::parse(&acl(&NAMED)).unwrap().with_mode(0o604);
        assert_eq!(changed.mode(), 0o604);
        let inherited = Acl::parse(&acl(&NAMED)).unwrap().inherited(0o646);
        assert_eq!(inherited.mode(), 0o640);
        let expected =
            [(tag::OWNER, 6), (tag::USER, 6), (tag::OWNING_GROUP, 5), (tag::MASK, 4), (tag::OTHER, 0)];
        assert_eq!(inherited.to_bytes(), acl(&expected));
    }

    #[test]
    fn what_posix_does_not_allow_is_refused() {
        let refused = |value: &[u8]| Acl::parse(value).err() == Some(Errno::INVAL);
        assert!(refused(b""));
        assert!(refused(&[2, 0, 0, 0, 1]));
        assert!(refused(&acl(&NAMED[1..])), "no owner");
        assert!(refused(&acl(&[NAMED[0], NAMED[1], NAMED[2], NAMED[4]])), "a name without a mask");
        assert!(refused(&acl(&[(tag::OWNER, 8), (tag::OWNING_GROUP, 4), (tag::OTHER, 0)])));
        assert!(refused(&acl(&[(tag::OWNING_GROUP, 4), (tag::OWNER, 7), (tag::OTHER, 0)])));
        let mut other_version = acl(&NAMED);
        other_version[0] = 3;
        assert!(refused(&other_version));
    }
}
