import ctypes,sys,numpy as np,time,os
libs=[(p.split('=')[0],ctypes.CDLL(p.split('=')[1])) for p in sys.argv[1].split(',')]
i=lambda v:ctypes.byref(ctypes.c_int(v)); ch=lambda c:ctypes.c_char_p(c); P=lambda a:ctypes.c_void_p(a.ctypes.data)
clock=(lambda: time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID)) if os.environ.get('CPUT') else time.perf_counter
for spec in sys.argv[2:]:
    r,n=spec.split(':'); n=int(n)
    dt={'s':np.float32,'d':np.float64,'c':np.complex64,'z':np.complex128}[r[0]]
    rng=np.random.default_rng(1)
    M=(rng.random((n,n))-.5).astype(dt)
    if 'potrf' in r: M=M@M.conj().T+n*np.eye(n,dtype=dt)
    M=np.asfortranarray(M); A=M.copy(order='F'); piv=np.zeros(n,np.int32); tau=np.zeros(n,dt); w=np.zeros(max(1,64*n),dt); info=ctypes.c_int()
    fl={'potrf':n**3/3,'getrf':2*n**3/3,'geqrf':4*n**3/3}[r[1:]]*(4 if r[0] in 'cz' else 1)
    reps=max(5,min(400,int(2e9/fl)))
    res={}
    for k in range(reps):
        for nm,l in libs:
            A[:]=M; f=getattr(l,r+'_'); f.restype=None
            t=clock()
            if 'potrf' in r: f(ch(b'L'),i(n),P(A),i(n),ctypes.byref(info))
            elif 'getrf' in r: f(i(n),i(n),P(A),i(n),P(piv),ctypes.byref(info))
            else: f(i(n),i(n),P(A),i(n),P(tau),P(w),i(len(w)),ctypes.byref(info))
            res.setdefault(nm,[]).append(clock()-t)
    print('%-14s'%spec,'  '.join('%s %9.1f us %6.1f GF/s'%(nm,np.quantile(v,.25)*1e6,fl/np.quantile(v,.25)/1e9) for nm,v in res.items()),flush=True)
