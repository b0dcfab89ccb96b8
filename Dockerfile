# Images for a CPU and for NVIDIA GPUs, run as the user who starts them:
#   docker build --target cpu -t splat .      docker run --rm -u "$(id -u)" -v "$PWD:/work" splat train photos
#   docker build --target cuda -t splat .     the same, with --gpus all (NVIDIA Container Toolkit, driver for CUDA 13)
FROM python:3.12-slim AS base
ENV HOME=/tmp PIP_NO_CACHE_DIR=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /work
ENTRYPOINT ["splat"]
CMD ["--help"]

# Brings its own compiler of kernels.
FROM base AS cpu
COPY . /src
RUN pip install "/src[cpu,sfm,heic,video,viewer,flip,tensorboard]" && splat --version

# NVRTC compiles the kernels, NCCL is for several GPUs; the driver is the host's.
FROM base AS cuda
COPY . /src
RUN pip install "/src[cuda13,nvrtc,sfm,heic,video,viewer,flip,tensorboard]" "nvidia-nccl-cu13>=2.28" && splat --version
