#ifndef FUNNEL_VERSION_H
#define FUNNEL_VERSION_H

/* The only place that names the version. The server takes a number, where 10203 means
 * 1.2.3; people read the text. Between releases, the text is the next version with -dev,
 * which comes before it in Semantic Versioning. */
#define FUNNEL_VERSION "0.1.0"
#define FUNNEL_VERSION_NUMBER 100

/* build.sh stamps the commit; a plain `go build` does not know it. */
#ifndef FUNNEL_COMMIT
#define FUNNEL_COMMIT "unknown commit"
#endif

#endif
