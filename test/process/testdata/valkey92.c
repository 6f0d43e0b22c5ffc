/* Stands between the module and the server that loads it. It loads MODULE, a path. All functions
 * that the module finds are the server's own, except for three: so the module sees what Valkey 9.2
 * adds.
 *
 * The argument of the load is the options that the server knows, as a number. Without an argument
 * the server lacks the function that says which. A key whose name begins with "saving" is in use by
 * a save: it cannot be opened for writing. */

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

struct string;
struct key;
struct context {
    int (*find)(const char *name, void *function);
};

static int (*find)(const char *name, void *function);
static const char *(*text_of)(const struct string *, size_t *length);
static struct key *(*open_key)(struct context *, struct string *name, int mode);
static void (*set_options)(struct context *, int options);
static void (*write_log)(struct context *, const char *level, const char *format, ...);
static int known;

enum { OK = 0, FAILED = 1, WRITE = 1 << 1 };

static struct key *open_key_unless_in_use(struct context *context, struct string *name, int mode)
{
    size_t length;
    const char *text = text_of(name, &length);
    if ((mode & WRITE) && length >= 6 && memcmp(text, "saving", 6) == 0) return NULL;
    return open_key(context, name, mode);
}

static int known_options(void)
{
    return known;
}

static void log_options(struct context *context, int options)
{
    write_log(context, "notice", "options %d", options);
    set_options(context, options);
}

static int find_as_valkey92(const char *name, void *target)
{
    void **function = target;
    if (strcmp(name, "RedisModule_GetModuleOptionsAll") == 0) {
        if (known < 0) return FAILED;
        *function = known_options;
        return OK;
    }
    if (find(name, target) != OK) return FAILED;
    if (strcmp(name, "RedisModule_OpenKey") == 0) *function = open_key_unless_in_use;
    if (strcmp(name, "RedisModule_SetModuleOptions") == 0) *function = log_options;
    return OK;
}

static void *module;

int RedisModule_OnLoad(struct context *context, struct string **words, int count)
{
    int (*load)(struct context *, struct string **, int);
    size_t length;
    find = context->find;
    find("RedisModule_StringPtrLen", &text_of);
    find("RedisModule_OpenKey", &open_key);
    find("RedisModule_SetModuleOptions", &set_options);
    find("RedisModule_Log", &write_log);
    known = count > 0 ? atoi(text_of(words[0], &length)) : -1;
    module = dlopen(MODULE, RTLD_NOW | RTLD_LOCAL);
    if (module == NULL) return FAILED;
    *(void **)&load = dlsym(module, "RedisModule_OnLoad");
    context->find = find_as_valkey92;
    int result = load(context, words, 0);
    context->find = find;
    return result;
}

int RedisModule_OnUnload(struct context *context)
{
    int (*unload)(struct context *);
    *(void **)&unload = dlsym(module, "RedisModule_OnUnload");
    return unload(context);
}
