"""x"""
def solve_makespan(f,o,c): raise NotImplementedError
