package cs336.numbers;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/** The column header of a record's component in {@link Tables#of}. Without it the component's name is the header. */
@Target(ElementType.RECORD_COMPONENT)
@Retention(RetentionPolicy.RUNTIME)
public @interface Header {
    /** The header, in words and with the unit, as in {@code "peak memory (GB)"}. */
    String value();
}
