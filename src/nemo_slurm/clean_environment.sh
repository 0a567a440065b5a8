# shellcheck shell=bash
# What a job, or a terminal inside one, inherited from Slurm and MPI must not reach the job that is submitted from
# it: it would be bound to the other's CPUs, memory and ranks. The way to the cluster stays (SLURM_CONF, SLURM_JWT).
slurm_clean_environment() {
  local _name
  for _name in $(compgen -e); do
    case $_name in
      SLURM_CONF | SLURM_JWT) ;;
      SLURM_* | SLURMD_* | SBATCH_* | SRUN_* | SALLOC_* | SQUEUE_* | SACCT_* | SCANCEL_* | SCONTROL_* | SINFO_* | \
        PMI_* | PMI2_* | PMIX_* | OMPI_* | PRTE_* | HYDRA_* | MPIEXEC_*) unset -v "$_name" ;;
    esac
  done
}
