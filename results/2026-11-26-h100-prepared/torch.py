import torch, statistics
torch.backends.cuda.matmul.allow_tf32=False
shapes=[(16,8192,8192),(64,8192,8192),(128,4096,4096),(256,4096,4096),(512,10240,8192),(768,)*3,(1024,)*3,(2048,)*3,(4096,)*3,(8192,)*3]
for m,n,k in shapes:
    p=max(2,min(16,(3<<30)//(4*(m*k+k*n+m*n))))
    A=[torch.rand(m,k,device='cuda')*2-1 for _ in range(p)];B=[torch.rand(k,n,device='cuda')*2-1 for _ in range(p)];C=[torch.empty(m,n,device='cuda') for _ in range(p)]
    s=torch.cuda.Stream()
    with torch.cuda.stream(s):
        for i in range(p): torch.mm(A[i],B[i],out=C[i])
    torch.cuda.synchronize()
    g=torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        for i in range(p): torch.mm(A[i],B[i],out=C[i])
    t=[]
    for r in range(16):
        a,b=torch.cuda.Event(enable_timing=True),torch.cuda.Event(enable_timing=True)
        a.record();g.replay();b.record();b.synchronize()
        if r: t.append(a.elapsed_time(b)*1e3/p)
    print(m,n,k,"torch.mm f32 %.2f us"%statistics.median(t),flush=True)
