/* Stands for redis-cell: another module that has COMMAND. It replies a limit of 0, which
 * funnel never does. Like funnel it needs no header file: the first word of the context
 * points to the function that finds all other functions. */

struct context {
    int (*find)(const char *name, void *function);
};

static int (*array)(struct context *, long);
static int (*integer)(struct context *, long long);

static int answer(struct context *context, void **words, int count)
{
    (void)words, (void)count;
    array(context, 5);
    for (int i = 0; i < 5; i++) integer(context, 0);
    return 0;
}

int RedisModule_OnLoad(struct context *context)
{
    void (*describe)(struct context *, const char *name, int version, int api);
    int (*command)(struct context *, const char *name, int (*run)(struct context *, void **, int), const char *flags,
                   int first, int last, int step);
    context->find("RedisModule_SetModuleAttribs", &describe);
    context->find("RedisModule_CreateCommand", &command);
    context->find("RedisModule_ReplyWithArray", &array);
    context->find("RedisModule_ReplyWithLongLong", &integer);
    describe(context, "standin", 1, 1);
    return command(context, COMMAND, answer, "write deny-oom fast", 1, 1, 1);
}
