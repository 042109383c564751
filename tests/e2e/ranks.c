/* Says how many processes of MPI there are: rank 0, once all have met. */
#include <mpi.h>
#include <stdio.h>

int main(int count, char **words) {
    int rank, ranks, sum;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int one = 1;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf("%d of %d ranks\n", sum, ranks);
    // MPICH's end waits for ever, over UCX, for a connection that the other has not answered when it leaves.
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Finalize();
}
