# /etc/profile.d/cuda.sh
CUDA_VERSION=99.9
export CUDA_HOME=/opt/cuda-${CUDA_VERSION}
export CUDA_PATH="$CUDA_HOME"
export TRITON_PTXAS_PATH=${CUDA_HOME}/bin/ptxas
case ":$PATH:" in
*":$CUDA_HOME/bin:"*) ;;
*) export PATH="$CUDA_HOME/bin:$PATH" ;;
esac
export LD_LIBRARY_PATH=$CUDA_HOME/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
unset CUDA_VERSION
