import torch, statistics as st
dev='cuda'
SHAPES=[(8,8192,4096,4096),(64,8192,2048,4096),(64,65536,2048,4096),(128,1024,2048,7168),(8,64,14336,4096),(16,16384,5120,1536),(32,4096,7168,2048),(256,32768,1024,2048)]
M=(1<<64)-1
def ends(groups,rows):
    w=[(((g+1)*0x9e3779b97f4a7c15)&M)>>60 for g in range(groups)]
    s=0; out=[]
    for x in w:
        s+=x; out.append(rows*s//max(sum(w),1))
    return out
def t(g,n):
    b,e=torch.cuda.Event(enable_timing=True),torch.cuda.Event(enable_timing=True)
    b.record(); g.replay(); e.record(); e.synchronize(); return b.elapsed_time(e)*1e3/n
print(torch.__version__, torch.cuda.get_device_name())
for (G,R,n,k) in SHAPES:
    a=torch.rand(R,k,device=dev,dtype=torch.bfloat16)*2-1
    for order in ('rows','columns'):
        b=torch.rand(G,k,n,device=dev,dtype=torch.bfloat16)*2-1 if order=='rows' else (torch.rand(G,n,k,device=dev,dtype=torch.bfloat16)*2-1).transpose(1,2)
        offs=torch.tensor(ends(G,R),device=dev,dtype=torch.int32)
        f=lambda: torch._grouped_mm(a,b,offs=offs)
        s=torch.cuda.Stream(); s.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(s):
            for _ in range(2): f()
        torch.cuda.current_stream().wait_stream(s)
        g=torch.cuda.CUDAGraph()
        with torch.cuda.graph(g):
            for _ in range(8): o=f()
        ts=[t(g,8) for _ in range(10)][1:]
        us=st.median(ts)
        print('torch bf16',G,R,n,k,'|',order,'|','%.1f us | %.0f TFLOP/s | %.0f GB/s'%(us,2*R*n*k/us/1e6,2*G*n*k/us/1e3),flush=True)
        del b; torch.cuda.empty_cache()
