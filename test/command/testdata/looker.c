/* Stands for another module, which opens each key in the events of that key. Like funnel it needs
 * no header file: the first word of the context points to the function that finds all other
 * functions. */

struct context {
    int (*find)(const char *name, void *function);
};
struct string;
struct key;

static struct key *(*open_key)(struct context *, struct string *name, int mode);
static void (*close_key)(struct key *);

enum { WRITE = 1 << 1, GENERIC = 1 << 2, STRING = 1 << 3 };

static int look(struct context *context, int type, const char *event, struct string *name)
{
    (void)type, (void)event;
    close_key(open_key(context, name, WRITE));
    return 0;
}

int RedisModule_OnLoad(struct context *context)
{
    void (*describe)(struct context *, const char *name, int version, int api);
    int (*subscribe)(struct context *, int types, int (*callback)(struct context *, int, const char *, struct string *));
    context->find("RedisModule_SetModuleAttribs", &describe);
    context->find("RedisModule_SubscribeToKeyspaceEvents", &subscribe);
    context->find("RedisModule_OpenKey", &open_key);
    context->find("RedisModule_CloseKey", &close_key);
    describe(context, "looker", 1, 1);
    return subscribe(context, GENERIC | STRING, look);
}
