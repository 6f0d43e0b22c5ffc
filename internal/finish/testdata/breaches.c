/* Mistakes that a change to the C code might make, each in its own function. */
#pragma GCC visibility push(hidden)

extern void crosscall2(void (*)(void *), void *, int, unsigned long);

void funnel_exported(void);

void funnel_calls_export(void)
{
    funnel_exported();
}

void funnel_calls(void)
{
    crosscall2(0, 0, 0, 0);
}

void *funnel_computes(int n)
{
    return n ? (char *)crosscall2 + n : 0;
}

void *funnel_points[] = {0, crosscall2};

void funnel_unknown(void)
{
#ifdef __x86_64__
    __asm__("vzeroupper");
#else
    __asm__(".inst 0x04200000"); /* add z0.b, z0.b, z0.b, of SVE */
#endif
}
