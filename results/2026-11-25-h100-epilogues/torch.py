import torch, statistics as st, sys
import torch.nn.functional as F
dev='cuda'
def graph(fn, sets):
    s=torch.cuda.Stream(); s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        for x in sets[:2]: fn(*x)
    torch.cuda.current_stream().wait_stream(s)
    g=torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        for x in sets: fn(*x)
    return g
def t(g,n):
    b,e=torch.cuda.Event(enable_timing=True),torch.cuda.Event(enable_timing=True)
    b.record(); g.replay(); e.record(); e.synchronize(); return b.elapsed_time(e)*1e3/n
for (m,n,k) in [(1024,)*3,(2048,)*3,(4096,)*3,(8192,)*3,(64,8192,8192),(4096,14336,4096),(8192,4096,1024)]:
    bts=(m*k+k*n+2*m*n)*2
    cnt=max(2,min(16,(3<<30)//bts))
    sets=[(torch.rand(m,k,device=dev,dtype=torch.bfloat16)*2-1, torch.rand(k,n,device=dev,dtype=torch.bfloat16)*2-1, torch.empty(m,n,device=dev,dtype=torch.bfloat16)) for _ in range(cnt)]
    bias=torch.rand(n,device=dev,dtype=torch.bfloat16)
    fns={'plain':lambda a,b,d: torch.mm(a,b,out=d),
     'bias':lambda a,b,d: torch.addmm(bias,a,b,out=d),
     'bias relu':lambda a,b,d: torch._addmm_activation(bias,a,b,use_gelu=False,out=d),
     'bias gelu_tanh':lambda a,b,d: torch._addmm_activation(bias,a,b,use_gelu=True,out=d)}
    gs={q:graph(f,sets) for q,f in fns.items()}
    res={q:[] for q in fns}
    for r in range(16):
        for q,g in gs.items():
            x=t(g,cnt)
            if r: res[q].append(x)
    base=st.median(res['plain'])
    print('torch',m,n,k,' '.join(f"{q} {st.median(v):.2f} ({st.median(v)/base:.3f})" for q,v in res.items()),flush=True)
    del gs,sets; torch.cuda.empty_cache()
