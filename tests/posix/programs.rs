//! Programs that users run, doing what they do.

use super::everywhere;

#[test]
fn git_clones_a_repository_and_finds_it_whole() {
    everywhere(
        "git init -q origin && cd origin\n\
         for i in $(seq 150); do mkdir -p d$((i % 7)); seq $i > d$((i % 7))/f$i; done\n\
         git add . && git -c user.name=n -c user.email=e commit -qm one\n\
         git mv d1 moved && git -c user.name=n -c user.email=e commit -qm two && cd ..\n\
         git clone -q --no-local origin clone && git -C clone fsck --strict --full\n\
         git -C clone gc -q && git -C clone fsck --full && diff -r -x .git origin clone",
    );
}

#[test]
fn make_builds_a_c_program_that_runs_from_the_buffer() {
    everywhere(
        "for i in 1 2 3 4; do echo \"int f$i(void) { return $i; }\" > f$i.c; done\n\
         echo 'int f1(void), f4(void); int main(void) { return f1() + f4() - 5; }' > main.c\n\
         printf 'prog: main.o f1.o f2.o f3.o f4.o\\n\\t$(CC) -o $@ $^\\n' > Makefile\n\
         make -s -j2 && ./prog && make -q && touch f2.c && ! make -q",
    );
}

#[test]
fn sqlite_keeps_a_database_in_either_journal_mode() {
    everywhere(
        "for mode in wal delete; do\n\
             sqlite3 $mode.db \"pragma journal_mode=$mode; create table t(x integer primary key, y text)\" > /dev/null\n\
             for w in 1 2; do\n\
                 (for i in $(seq 40); do\n\
                      sqlite3 -cmd '.timeout 60000' $mode.db \"insert into t(y) values('$w-$i')\"\n\
                  done) &\n\
             done; wait\n\
             [ $(sqlite3 $mode.db 'select count(distinct y) from t') = 80 ]\n\
             [ $(sqlite3 $mode.db 'pragma integrity_check') = ok ]\n\
         done",
    );
}

#[test]
fn tar_and_rsync_bring_modes_links_times_and_attributes_there_and_back() {
    everywhere(
        "mkdir -p src/sub/empty && cd src\n\
         echo text > file && chmod 4751 file && ln file hard && ln -s file soft && mkfifo pipe\n\
         truncate -s 5M sparse && echo end >> sparse && touch -d '1999-12-31 23:59:59.123456789' file\n\
         setfattr -n user.note -v hello file && chmod 2775 sub && chown -h 12:34 soft && chown 1:2 sub && cd ..\n\
         tar --xattrs -Scf t.tar src && mkdir back && tar --xattrs -C back -xpf t.tar\n\
         rsync -aHAXS src/ again/\n\
         for copy in back/src again; do\n\
             [ -z \"$(rsync -naHAXi --checksum --delete src/ $copy/)\" ]\n\
         done\n\
         [ $(stat -c %b again/sparse) -lt 100 ] && [ $(stat -c %h again/hard) = 2 ]\n\
         [ \"$(stat -c %y back/src/file | cut -c1-29)\" = '1999-12-31 23:59:59.123456789' ]",
    );
}

#[test]
fn access_lists_are_what_they_are_on_a_local_file_system() {
    everywhere(
        "here=$PWD && there=$(mktemp -d) && trap 'rm -rf $there' EXIT\n\
         work() {\n\
             mkdir $1/work && cd $1/work && umask 077 && mkdir d && chgrp 9 d && chmod 2750 d && setfacl -d -m u:7:rx,g:8:rwx d\n\
             touch d/f && mkdir d/sub && echo text > d/sub/g && mkfifo d/p && ln -s f d/l && install -m 640 d/f d/i\n\
             chmod 2640 d/f && setfacl -m u:1:rw d/f && setfacl -x u:1 d/f && chmod g=x d/i\n\
             cp -a d copy && tar --acls -cf t d && mkdir out && tar --acls -C out -xpf t\n\
             setfacl -b d/sub/g && setfacl -k d/sub && touch d/sub/h && mv d/i i && setfacl -m m::r copy/sub/g\n\
             find . ! -type l | sort | xargs getfacl --numeric && find . -printf '%p %M %U %G\\n' | sort\n\
         }\n\
         (work $there) > $there/expected && (work $here) > $there/found && diff $there/expected $there/found",
    );
}

#[test]
fn extended_attributes_are_listed_saved_and_brought_back_as_on_a_local_file_system() {
    everywhere(
        "here=$PWD && there=$(mktemp -d) && trap 'rm -rf $there' EXIT\n\
         show() {\n\
             getfattr --absolute-names \"$@\" -d -m . -e hex . | awk '/^# file/ { f = $0; next } NF { print f, $0 }' | sort\n\
         }\n\
         work() {\n\
             mkdir -p $1/w/d/e/f && cd $1/w && echo text > reg && ln -s d lnk && mkfifo pipe && mknod dev c 1 3\n\
             echo text > d/e/f/deep && ln -s ../../reg d/e/up && all='reg d lnk pipe dev d/e d/e/f d/e/f/deep d/e/up'\n\
             for space in user trusted; do for at in $all; do\n\
                 setfattr -h -n $space.empty $at; setfattr -h -n $space.hex -v 0xbabe00ff $at\n\
                 for i in $(seq 12); do setfattr -h -n $space.n$i -v \"$i $at\" $at; done\n\
                 setfattr -h -n $space.n1 -v replaced $at; setfattr -h -x $space.n7 $at; setfattr -h -x $space.none $at\n\
             done; done 2>&1\n\
             show -h -R -P && show -R -L && getfattr -h -R -P -d -m . -e hex . > ../kept\n\
             for at in $all; do\n\
                 getfattr -h -m . $at | grep -v '^#' | while read name; do [ -z $name ] || setfattr -h -x $name $at; done\n\
             done\n\
             show -h -R -P && setfattr -h --restore=../kept && show -h -R -P && rm ../kept\n\
         }\n\
         (work $there) > $there/expected && (work $here) > $there/found && [ $(wc -l < $there/found) -gt 500 ]\n\
         diff $there/expected $there/found",
    );
}

#[test]
fn who_reads_beside_a_writer_never_sees_bytes_from_before_a_write_that_returned() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/posix/beside_a_writer.py");
    everywhere(&format!("for first in reader writer reader; do python3 {script} $first; done"));
}

#[test]
fn find_du_and_df_agree_with_what_is_there() {
    everywhere(
        // A volume's own file system takes up to 20 MiB of it, and the shared kind has two.
        "mkdir -p a/b && for i in $(seq 700); do echo $i > a/b/$i; done\n\
         [ $(find . -type f | wc -l) = 700 ] && [ $(find a -newermt '1 hour ago' -name '1*' | wc -l) = 111 ]\n\
         head -c 50M /dev/urandom > big && [ $(du -m big | cut -f1) = 50 ]\n\
         used=$(df --output=used -m . | tail -1) && [ $used -ge 50 ] && [ $used -le 90 ]\n\
         [ $(df --output=size -m . | tail -1) = 1024 ]\n\
         rm -r a big && for i in $(seq 300); do\n\
             [ $(df --output=used -m . | tail -1) -le 40 ] && exit; sleep 0.1\n\
         done; df -m . >&2; false",
    );
}

#[test]
fn the_space_of_a_file_that_was_removed_while_it_was_open_is_free_when_it_is_closed() {
    everywhere(
        "exec 3<>first && fallocate -l 600M first && rm first && ! fallocate -l 600M second && rm -f second\n\
         exec 3>&- && for i in $(seq 100); do fallocate -l 600M second && exit; sleep 0.1; done; false",
    );
}
