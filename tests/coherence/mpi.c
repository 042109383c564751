/* Ranks on several nodes write one file through MPI-IO and check every byte. Makes PROGRAM.right if all is. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RECORD = 100, RECORDS = 400, ROUNDS = 20 };

static int rank, ranks;

static void must(int result, const char *what) {
    if (result == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(result, text, &length);
    fprintf(stderr, "rank %d: %s: %s\n", rank, what, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void expect(int is_so, const char *what, long where) {
    if (is_so) return;
    fprintf(stderr, "rank %d: %s at %ld\n", rank, what, where);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static MPI_File open_file(const char *path, const char *sieving) {
    MPI_Info info;
    MPI_File file;
    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_ds_write", sieving);
    MPI_Info_set(info, "romio_ds_read", sieving);
    MPI_Info_set(info, "romio_cb_write", "disable");
    must(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file), "open");
    MPI_Info_free(&info);
    return file;
}

/* Every rank's own records, those of the others in between. */
static MPI_Datatype strided(void) {
    MPI_Datatype type;
    MPI_Type_vector(RECORDS, RECORD, RECORD * ranks, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    return type;
}

static char byte_at(long offset) { return (char)(offset * 131 + (offset >> 9) * 7 + 1); }

/* Independent noncontiguous writes: with data sieving, each rank reads, changes and writes back what the others write too. */
static void records(const char *path, const char *sieving) {
    MPI_File file = open_file(path, sieving);
    MPI_Datatype type = strided();
    must(MPI_File_set_view(file, (MPI_Offset)rank * RECORD, MPI_BYTE, type, "native", MPI_INFO_NULL), "view");
    char *bytes = malloc(RECORDS * RECORD);
    for (int n = 0; n < RECORDS * RECORD; n++)
        bytes[n] = byte_at((long)(n / RECORD * ranks + rank) * RECORD + n % RECORD);
    must(MPI_File_write(file, bytes, RECORDS * RECORD, MPI_BYTE, MPI_STATUS_IGNORE), "write");
    must(MPI_File_sync(file), "sync");
    MPI_Barrier(MPI_COMM_WORLD);
    must(MPI_File_sync(file), "sync");
    long all = (long)RECORDS * RECORD * ranks;
    char *read = malloc(all);
    must(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL), "view");
    must(MPI_File_read(file, read, all, MPI_BYTE, MPI_STATUS_IGNORE), "read");
    for (long n = 0; n < all; n++) expect(read[n] == byte_at(n), "a wrong byte", n);
    must(MPI_File_close(&file), "close");
    free(bytes);
    free(read);
    MPI_Type_free(&type);
}

/* In atomic mode, of writes to the same places one is the last in all of them. */
static void atomic(const char *path) {
    MPI_File file = open_file(path, "enable");
    MPI_Datatype type = strided();
    must(MPI_File_set_atomicity(file, 1), "atomicity");
    must(MPI_File_set_view(file, 0, MPI_BYTE, type, "native", MPI_INFO_NULL), "view");
    char *bytes = malloc(RECORDS * RECORD);
    for (int round = 0; round < ROUNDS; round++) {
        memset(bytes, 'a' + rank, RECORDS * RECORD);
        must(MPI_File_write_at(file, 0, bytes, RECORDS * RECORD, MPI_BYTE, MPI_STATUS_IGNORE), "write");
        MPI_Barrier(MPI_COMM_WORLD);
        must(MPI_File_read_at(file, 0, bytes, RECORDS * RECORD, MPI_BYTE, MPI_STATUS_IGNORE), "read");
        for (long n = 1; n < RECORDS * RECORD; n++) expect(bytes[n] == bytes[0], "two ranks' writes are mixed", n);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    must(MPI_File_close(&file), "close");
    free(bytes);
    MPI_Type_free(&type);
}

int main(int count, char **words) {
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    char path[4096];
    for (int sieving = 0; sieving < 2; sieving++) {
        snprintf(path, sizeof path, "%s/records-%d", words[1], sieving);
        records(path, sieving ? "enable" : "disable");
    }
    if (count > 2) {
        snprintf(path, sizeof path, "%s/atomic", words[1]);
        atomic(path);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        /* What is printed shortly before the end may be lost on its way. */
        snprintf(path, sizeof path, "%s.right", words[0]);
        FILE *right = fopen(path, "w");
        expect(right && fclose(right) == 0, "no file for the result", 0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
#ifdef MPICH_VERSION
    /* MPICH 4.0 over UCX may wait for ever in MPI_Finalize: a rank that still closes its connections needs the others, which
       wait in the process manager already. The files are closed and compared: there is nothing left to finalize. */
    MPI_Abort(MPI_COMM_WORLD, 0);
#endif
    MPI_Finalize();
}
