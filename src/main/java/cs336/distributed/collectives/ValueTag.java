package cs336.distributed.collectives;

/** The first byte of each object in the format of {@link Serialization}. */
enum ValueTag {
    NULL,
    FALSE,
    TRUE,
    BYTE,
    SHORT,
    CHARACTER,
    INT,
    LONG,
    FLOAT,
    DOUBLE,
    STRING,
    DURATION,
    LIST,
    SET,
    SORTED_SET,
    MAP,
    SORTED_MAP,
    BYTES,
    ARRAY,
    ENUM,
    RECORD;

    /** The largest depth of nested objects. */
    static final int MOST_NESTED = 100;
}
